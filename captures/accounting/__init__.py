"""The accounting: tables and keys of summary.json from decoded frames, deliveries and the oracle's answers.

- `sql`, `texts`: a text of SQL for each table and step, and how texts are read;
- `steps`: what texts read of a run beside each other, and the order in which they are run;
- `engines`: DuckDB in this process, and what an engine is;
- `account`, `direct`: the accounting of a run on Spark or DuckDB, and that of a task of a sweep;
- `conclusion`: the summary from the rows of texts; reconciliation, contradictions and verdict;
- `inputs` and the modules that it names: the small files of a run.

Metrics: protocol paper, section 4.2. Experiment seconds: `captures.rundir.clock`.
"""
