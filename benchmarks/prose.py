"""The words of docs/benchmarks.md; the figures are put in by ``report``."""

PAGE = """\
# Benchmarks

Made by `make bench`: run it to make this page again.

A tool call's arguments arrive a few characters at a time, and somebody looks at the value after
every chunk. How much does a chunk cost? Ratios are what counts here: everything was
measured side by side, in turns. Absolute times depend on the machine and are
[further down](#absolute-times).

The first part of this page is about the parser alone: text in, value out. The second,
[from bytes to events](#from-bytes-to-events), is about the whole way from what a provider sends,
beside the official SDKs. The third, [judging a call](#judging-a-call-while-it-is-written), is about
schemas and rules: how early a wrong call is rejected, and what it costs to look. The fourth,
[the agent](#the-agent), is about what a run adds to the stream of its model. The fifth,
[the stores](#the-stores), is about the logs of runs: writing, following and joining them. The
sixth, [the terminal](#the-terminal), is about showing it all to a person.

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

## From bytes to events

A provider sends a tool call as server-sent events, each with a few characters of the arguments.
`argstream.stream(chunks)` makes events of these bytes, and so do the official SDKs. What does
one such delta cost?

### Beside the SDKs

argstream's CPU time per delta as a fraction of the SDK's, for one call with arguments of 20 kB and
of 100 kB.

{event_ratios}

They do not do the same thing. The SDKs make pydantic objects of all that is in a payload, and their
methods called `stream` keep a snapshot of the whole message besides. argstream reads only the
fields it needs. What it does with them is more: it parses the arguments as they grow, and says of
each when it begins, how it grows and when it is settled. Of an SDK one gets the pieces of the text,
to be joined and parsed; or, of anthropic's `messages.stream`, the value so far without the string
that is being written.

{event_remarks}

### On top of an SDK

Who wants the SDK's connection, retries and types can have them: `stream(sdk_stream)` reads the
SDK's own objects. This is what both cost together, at 100 kB.

{event_on_top}

### How the bytes come

µs per delta at 100 kB. The SDKs above read through httpx2, in which the chunks come from memory
and not from a network; argstream was given the chunks themselves. The last column is argstream
through the same httpx2: the difference is what its HTTP client adds.

{event_reads}

### Every protocol, and growth of the arguments

µs per delta, for all protocols that stream arguments. Nothing is looked at twice, so it does not
depend on what has come before. The last column compares with Anthropic's stream, at the larger
size.

{event_growth}

Bedrock Invoke carries Anthropic's payloads in base64 inside JSON inside checked messages. Gemini's
partialArgs have no text: it is written by argstream, so that every call has one.

### Memory

The most that Python's allocator was asked for at any moment, by `tracemalloc`, while the events of
a call with 1 MB of arguments, nearly all ASCII, were dropped as they came. Each character is kept
twice: in the text as it came, and in the value. The slope counts, from 10 kB to 1 MB; the last
column is what 10 kB take, with everything that does not depend on the size.

{event_memory}

OpenAI's Responses send all arguments again at the end, three times, each in one event: while such
an event is read, it is in memory too.

### How this is measured

- One call, its arguments one long string, in pieces of 1 to 7 characters, 4 on average, one event
  for each. Fields and padding of the events are as in recorded streams.
- Each event is a network chunk of its own, if nothing else is said.
- The clients of the SDKs are real; instead of a network they have a transport that gives the chunks
  from memory. Their loop does nothing with the events, nor does ours.
- CPU time, in turns, three rounds (two for the growth), of which the best counts. What has taken
  more than five seconds skips the other rounds.
- Before anything is timed, argstream and every SDK have to come to the arguments that were sent
  (the SDKs at 20 kB).

### µs per delta

CPU time, on one machine, on one day.

{event_times}

## Judging a call while it is written

With `stream(source, tools=…, policy=…)` a call is judged by its tool's schema and by rules, and
rejected at the first character after which it cannot be right. The usual way is to wait until all
of it is there and then to validate it.

### How early

Calls as models get them wrong, and how many characters of their arguments had been read when they
were rejected. There is no clock in this: it is the same in every run.

{early}

How early it can be depends on what is wrong. A type, a misspelt name or a value that is not among
those allowed is seen at once; a bound for a number, a pattern and a rule wait until the argument is
complete; that something is missing is known at the end of its object.

And it depends on the order. Here are the same mistakes in a call of `write_file`, with the content
as its last argument and as its first. Models mostly write in the order of the schema:
`argstream lint` warns of schemas with the second order, see [tool-order.md](tool-order.md).

{early_orders}

### What it costs

µs of CPU time per chunk: the parser alone, and with everything that it says given to
`Schema(…).check()` or to the rules. Arguments of 100 kB, in chunks of 4 characters on average. In
all but the long string the values are short: there are nearly as many keys, starts and ends of
values as there are chunks.

{check_costs}

- *5 properties*: the arguments of `write_file`, with a content of 100 kB and no bound for it, or of
  a tool that inserts rows, each of which again has five properties. With `maxLength` the
  characters of the content are counted.
- *50 properties*: enums, integers with bounds, short strings with `maxLength`, and ten arrays of
  objects, which have enums, a pattern and arrays of objects in them.
- *A union*: a list of what is one of five forms by `anyOf`, told apart by their first property.
- *A recursive schema*: a tree of folders by `$ref`.
- *20 rules*: none of them matches, so all of them wait for their arguments, to the end. Six are
  about each of the rows.

From Anthropic's bytes to events, as in [the second part](#from-bytes-to-events), the share of
judging is smaller. Schemas are compiled anew for each stream here.

{check_streams}

### Beside judging all of it again

What can be had without argstream: to judge the call so far with each chunk. argstream's cost, with
that of parsing, as a fraction of it.

{check_peers}

{check_remarks}

Neither can tell what is wrong from what is not finished. jsonschema-rs refuses every beginning that
still lacks a required property or the end of an enum's value; pydantic lets the last thing in the
text pass, whatever it is. So this is only what they cost.

### Growth with the arguments

µs of CPU time per chunk. Nothing is looked at twice; the final word at the end, by jsonschema-rs,
is included.

{check_growth}

### How judging is measured

- All that is measured is right and breaks no rule, so that everything is read to its end; that is
  made sure of before anything is timed.
- CPU time, in turns, seven rounds (four for the streams, three for the growth), of which the best
  counts. Schemas are compiled before, but for the streams.
- Judging all of it again is timed like the parsers: wall-clock time, three rounds, sampled where a
  whole document would take too long.

## The agent

An agent reads its model through `stream()`, and hands every event on. Between the two are a task
that reads, the loop that decides what follows, and a buffer from which the events are fetched. What
does that add to a delta? Here is the stream alone, with the tool's schema as its judge, and a
run of the same bytes: with `async for` over `agent.run_stream(…)`, and without an event loop, with
`for` over `agent.run(…, stream=True)`. µs of CPU time per delta.

{agent_costs}

The run of a call does more than the stream: the tool is run, and a second turn, of one word, ends
the run. A text ends it by itself. All that a run costs besides is divided by the deltas, too, so it
shows most where these are few; and `for` has a thread and an event loop made for each run.

What a run costs by itself: from the prompt to `run_completed`, of a `ScriptedModel` that says
one word. µs of CPU time per run, in one event loop.

{agent_runs}

### How the agent is measured

- Anthropic's bytes as in [the second part](#from-bytes-to-events), from memory, one chunk for each
  event, in pieces of 4 characters on average: a call of a tool with two arguments, one of them
  long, and a text. No network takes part.
- The model is a function that gives an async iterator of these bytes, the tool one that returns at
  once. Both are plain functions, so they are called in a thread; that is counted.
- CPU time of all threads, in turns, seven rounds, of which the median counts. Agent and judge are
  made before. Nothing is done with the events.
- Before anything is timed, every way has to come to what was written, and every run to its end.

## The stores

A run with a store is a log: each event is written before it is told. What does that cost, and how
soon does somebody else see it? All times but those of the agent are wall-clock time.

### Appending

Records per second: pieces of a call, 4 characters on average, about 180 bytes as they are stored.
*State changes* are records that must survive the end of the machine, such as the start of a tool.

{store_rates}

SQLite and Redis are beside what they stand on: the same bytes, encoded before, in the same kind of
file or stream, without claims, states and followers. *sqlite3 by itself* commits in the event loop,
which waits for the disk meanwhile; *in a thread* it does not, as with a store. Time per record, the
store's divided by that:

{store_ratios}

One append at a time is mostly the way into a thread and back, or to a server. So an agent does not
write each delta by itself if it does not have to: while the store writes, what comes meanwhile is
merged into the next record. And all runs that wait are written in one commit.

### Following

From the moment when a delta is given to the store until somebody who follows the run has it, in ms;
one delta about each ms.

{store_latencies}

SQLite tells nobody that another process has written. So the store looks, every 20 ms while somebody
waits.

### An agent with a store

The same turns as in [the fourth part](#the-agent), and the same agent with each store: µs of CPU
time per delta, and what it is of that without a store. What the server of Redis needs is not
counted. A model that does not wait is faster than any store, so deltas are merged: some hundred
make one record. One that writes a delta each ms has each of them written by itself.

{store_agents}

### Joining

Who joins a run while it goes on gets a snapshot, and then what follows. The time until he has that,
in ms, when 10,000 deltas of a call are in the log, each as a record of its own: for the first who
joins, and for the second.

{store_joins}

The first one reads the log; for the second only what is new would be read.

### How the stores are measured

- The file of SQLite is on the disk that this repository is on. Redis runs on the same machine and
  is reached through a Unix socket; it keeps nothing on the disk, or with `appendfsync always`
  everything before it answers.
- Appending: in turns, five rounds, of which the best counts. Each reading has a file or runs of its
  own. *sqlite3 by itself* has `synchronous=FULL` where state changes are written, else `NORMAL`, as
  the store has. *redis-py by itself* sends `XADD`, for a batch in one `MULTI`.
- Following: 1,000 deltas, once. Writing and following are in one event loop, or in two processes.
- The agent and joining: in turns, five rounds, of which the median counts.
- Everybody who follows must get every delta, every run come to its end, and every snapshot have the
  whole text, or nothing is reported.

## The terminal

A file that a model writes is shown while it is written: with line numbers and colours, what is
complete in the scrollback, what grows below it, twenty frames a second. The agent runs in the same
process, so: how much does that take, and does it grow with the file?

Here a model writes 100 deltas a second, of 25 characters each. The figures are of the last seconds
of a file of 20 kB, and of one of 100 kB, which end alike.

{terminal_ways}

- **Rich, all of it again**: `Live(Syntax(…))` with the whole text so far, the first that one would
  write. All of it is coloured again for each frame, so frames become fewer. And what is seen is the
  top of the file, since that fills the screen; to see the end, one must wait for it.
- **Rich, line by line**: what is complete is printed above the live display, in which the last line
  grows. That shows the same as argstream, but for a string or a comment of several lines: each line
  is coloured as if it were the first.

Both show the text of the file alone, as it is: no word about the call, and what would act on the
terminal does. Frames are the measure for comparing, since not all come to twenty a second. *ms per
frame* is the CPU time of all that happens from one to the next.

And what else there is to see, in argstream's terminal; with the cost of all of it when it comes as
fast as it can be shown:

{terminal_shown}

*Edits* are of a file that can be read, so each is shown as a diff in its place. *A text* is
Markdown. The tools write 100 deltas a second together.

### How the terminal is measured

- In a process of its own, whose standard output is a pseudo-terminal of 120 × 40 that is read as
  fast as it writes. What a real terminal needs to draw it is not counted.
- CPU time of all threads, user and system, of the seconds in which it is shown. The process is
  started, the events are made, and all that comes before is on the screen already.
- Three seconds each. What has a budget is measured twice, in turns; the cheaper frames count.
- The file is of Python’s own `typing.py`. Rich has line numbers and the terminal’s 16 colours, too.
- The end of everything must have been seen in the terminal, or nothing is reported.

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

## How the parsers are measured

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

µs per chunk of the parsers, on one machine, on one day.

{times}

## Versions

{versions}.

## Run it yourself

```
make bench
```

It takes some minutes. `.venv/bin/python benchmarks/run.py --quick` only checks that everything
works, `--only NAME` measures the peers and SDKs with that in their name, `--only judging` the third
part, `--only agent` the fourth, `--only stores` the fifth, `--only terminal` the sixth; none of
these writes this page. For axio it looks for a newer Python on the PATH and among those of pyenv;
`ARGSTREAM_BENCH_PYTHON` names another.
"""
