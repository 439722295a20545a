"""A reader of runs that was written from the documents alone, and shares no code with the project.

`frames` reads captures (docs/reference/wire-format.md), `tables` recomputes tables of a run
(run-folder.md and tables.md beside it).
"""
