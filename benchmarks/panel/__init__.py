"""The panel: tables and columns of very different shape, on one half of which rules are chosen and on the other judged.

`python -m benchmarks.panel` runs the judging half, writes panel.json and counts how often it was run; `--tuning` runs the tuning half and writes
nothing. `tuning_and_judging` says once and for all which table belongs to which half; tables are in `classification_tables`, `regression_tables` and
`public_tables`, columns in `number_columns`. Bounds in schemas are round numbers that follow from what a column means, never from its values.
"""
