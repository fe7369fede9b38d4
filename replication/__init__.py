"""The study that asks, at the scale of a laptop, whether LOOPE does what its paper says.

`plan` says what is run, `rules` and `claims` judge it, and `page` fills `page.md` with the numbers, all of which are
computed from `runs.jsonl`. `python -m replication.collect` adds runs that `loope run` has finished.
`study` is the later study of all encoders with one recipe, with its plan and its own file of results.
"""
