"""Networks whose exact attributions are known: hand-set ones in closed form, trained ones by counting."""
