"""The attribution methods and the queries that they make of a model."""
