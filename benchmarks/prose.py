"""The words of docs/benchmarks.md; the figures are put in by ``report``."""

PAGE = """\
# Benchmarks

Made by `make bench`: run it to make this page again.

A tool call's arguments arrive a few characters at a time, and somebody looks at the value after
every chunk. How much does a chunk cost? Ratios are what counts here: everything was
measured side by side, in turns. Absolute times depend on the machine and are
[further down](#absolute-times).

## argstream beside its peers

argstream's cost per chunk as a fraction of the peer's: 1/10 means that argstream needs a tenth of
the time, 2.0 × that it needs twice as much.

{ratios}

ijson and json-stream do less for their price: they do not show a string before its last quote, so
of a long one nothing is seen until it ends. [What is shown](#what-is-shown) tells how much each
parser lets its user see.

{without_axio}

## Growth

![µs per chunk against the size of the string, one line per parser](benchmarks.svg)

One string, from 10 kB to 1 MB, of those parsers that show a string while it grows, in µs per chunk.
A parser that looks at everything again with each chunk climbs; one whose cost per chunk stays the
same is flat. A dash: one chunk took longer than half a second, so it was left out.

{growth}

## What is shown

After every chunk of three documents of 3 kB each (a string, edits, rows), the parser's value was
compared with the final one. *Taken back later*: it showed something that the rest of the text
made untrue, such as the 12 of 123. *Behind argstream*: it showed less than the text had said.
*Final values*: whether these three and the four workloads came out as `json.loads` reads them.

{truths}

axio gives events and no value, so it is not in this table.

## Budgets

What the project promises, checked by every run (exit status 1 if one is missed). {budget_summary}

{budgets}

Two things these rows do not say about axio. They are of the newest Python that was found; tried
under Python 3.12.1, rows came out at 1/2.5 to 1/2.6, just inside the budget. And they compare with
the plain way to keep axio's fields, which copies the field with each chunk. Tried under 3.13 with
the string taken out of the dict before it is appended to, which does not copy, argstream was at
about 1/3.2 on strings, 1/3.1 on edits and 1/1.9 on rows; the last would miss the budget.

## About each parser

{remarks}

## How it is measured

- Four workloads: one string of 10 kB and one of 100 kB, 100 kB of nested edits (text that looks
  like code, with line ends, quotes, tabs, and some characters beyond ASCII), 100 kB of small rows
  (numbers, words, short strings). The root is an object. They are the same in every run.
- Each is cut into chunks of 1 to 7 characters, 4 on average, about what a provider sends.
- After every chunk the parser's value so far is read. What it costs to have that value belongs to
  the parser.
- Parsers and workloads take turns, ten rounds (five for the growth), and the best round of each
  counts. Garbage collection is as Python has it.
- A parser for which a whole document would take too long is measured in up to 60 windows, evenly
  spaced over the document; their mean stands for the whole (marked ~). Where one chunk takes
  seconds, that is no more than four chunks.

## Absolute times

µs per chunk, on one machine, on one day.

{times}

## Versions

{versions}.

## Run it yourself

```
make bench
```

It takes some minutes. `.venv/bin/python benchmarks/run.py --quick` only checks that everything
works, `--only NAME` measures the peers with that in their name; neither writes this page. For axio
it looks for a newer Python on the PATH and among those of pyenv; `ARGSTREAM_BENCH_PYTHON` names
another.
"""
