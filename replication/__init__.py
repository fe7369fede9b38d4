"""The study that asks, at the scale of a laptop, whether LOOPE does what its paper says, and which encoding to use.

The replication: `plan` says what is run, `rules` and `claims` judge it; results are in `runs.jsonl`, to which
`python -m replication.collect` adds runs that `loope run` has finished.

The later study of all encoders with one recipe: `study` has its plan and collects into `study.jsonl` and `swap.jsonl`;
`again` judges the claims, `refined` static against refined positions, `ceilings` the recipe; `evidence` gathers
everything that was measured of an encoder, from which `guide` and `which` make advice.

`page` fills the templates (`*.md` in this folder) with all of it: `python -m replication.page`.
"""
