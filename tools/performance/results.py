"""tools/performance/RESULTS.md holds what two programs measure: each writes its part and leaves the other's."""

import pathlib
import re


def write(path: pathlib.Path, text: str) -> None:
    """Put a part, which begins with a heading of the first level, in place of the part of that heading.

    Parts that are not there yet go to the end.
    """
    known = re.split(r"(?m)^(?=# )", path.read_text(encoding="utf-8")) if path.exists() else []
    parts = {part.split("\n", 1)[0]: part.strip() for part in known if part.strip()}
    parts[text.split("\n", 1)[0]] = text.strip()
    path.write_text("\n\n".join(parts.values()) + "\n", encoding="utf-8")
