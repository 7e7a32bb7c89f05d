"""The scripts that run inside the Redis server, in Lua. Each is atomic, and uses one slot.

They do not contain the rules of runs, which are in ``StoredRun``. A run has two keys, which share a
slot:

- ``PREFIX:{RUN}:run``, a hash: ``format``; ``state``, a ``StoredRun`` in JSON; ``token``,
  ``status`` and ``commands`` (its ``commands_version``), copied from there; ``seq`` and
  ``updated``, which deltas change and which are older in ``state``; ``changes``, the nonces of the
  last changes of the state, the newest first; ``identity``, the nonce of its creation,
  which is in its index entries; ``listed``, the score of these.
- ``PREFIX:{RUN}:log``, a stream: the records under their seq, ``SEQ-0``, each with the one field
  ``record``: a line of JSON.

To change a run, the caller reads it, applies the rules, and calls ``change``. That replaces the
state if the newest nonce is still the one that was read, and returns the newer state otherwise. The
version is a nonce and not a number, because a number could be used twice after a failover, or if
the run is deleted and created again. If ``change`` finds its own nonce, the request was sent
before, and the connection was lost before the answer arrived. The seq is compared too if records
are written or the lease gets another owner, so that no other process writes meanwhile. Most batches
only add records. ``append`` writes those in one request, without reading the run before.

The indexes are sorted sets, in slots of their own: see ``redis`` for how they are kept correct.
They all have the same entry for a run, ``[IDENTITY,RUN,CONVERSATION,USER]`` in JSON, with a time as
its score. ``append`` writes no record that is later.

- ``PREFIX:{N}:runs`` and ``PREFIX:{N}:unfinished``: all runs, and those that are not over. N is 0
  to 15 and follows from the ID of the run, so that these sets are spread over a cluster, too.
- ``PREFIX:{CONVERSATION}:conversation`` and ``PREFIX:{USER}:user``.
- ``PREFIX:{CONVERSATION}:about:USER``, a hash, is the row of a conversation.
- ``PREFIX:{RUN}:void:IDENTITY`` exists for an hour if this run must no longer be created.

In the names of keys, ``RUN``, ``CONVERSATION`` and ``USER`` are IDs with ``%``, ``{`` and ``}``
percent-encoded. So no ID makes a key of another prefix, and the hash tag that a cluster sees is the
whole ID. The tag of an empty ID is ``%``.

Changes of a run are published on the channel ``PREFIX:{RUN}:news:DATABASE``. Channels are not part
of a database, so they need its number. The channel is the first argument and not a key: while a
slot moves to another node of a cluster, a script with a key that does not exist is refused.

The first line of a message is its kind: ``gone``, ``commands``, or empty if only records were
written. If records were written, the second line is the seq of the first one. If these are not
large, they are the other lines. A cluster forwards messages to all nodes. So records alone are
published only while a store other than the writer watches the run. ``watcher`` is that store, or
``*`` for several. It is valid until ``watched``, by the clock of the server. A store that reads
records for followers is a watcher.

Each script returns a list: a status, then its data.
"""

from typing import Final

FORMAT: Final = "4"
"""The version of this format. Runs of version 1 have no field ``format``, and are not read."""
NONCE: Final = 16
"""How many characters a nonce has."""
_NONCES: Final = 20

_FUNCTIONS: Final = """
local run, log = KEYS[1], KEYS[2]
local news = ARGV[1]

local function integer(number)
  return string.format('%.0f', number)
end

local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function load()
  local found = redis.pcall('HGETALL', run)
  if found.err then
    if not found.err:find('WRONGTYPE') then return found end
    found = {'', ''}  -- the key is not a run
  end
  local time = redis.call('TIME')
  return {'run', time[1] .. '.' .. string.format('%06d', time[2]), found}
end

local function is_newer(version, seq)
  -- Whether the run has changed since this version, or its log if a seq is given.
  local found = redis.call('HMGET', run, 'changes', 'seq')
  return (found[1] or ''):sub(1, NONCE) ~= version or (seq ~= '' and found[2] ~= seq)
end

local function is_watched(by)
  -- Whether another store than this one watches the run.
  local found = redis.call('HMGET', run, 'watcher', 'watched')
  return found[1] and found[1] ~= by and tonumber(found[2]) > now()
end

local function watch(by, ms)
  -- Have records published to this store. Reading works if the server refuses writes.
  local found = redis.call('HMGET', run, 'watcher', 'watched')
  local left = (tonumber(found[2]) or 0) - now()
  if (found[1] == by or found[1] == '*') and left > ms / 2 then return end
  local watcher = is_watched(by) and '*' or by
  redis.pcall('HSET', run, 'watcher', watcher, 'watched', integer(now() + ms))
end

local function write(by, kind, first, at, ...)
  -- Write records, which are in ARGV from `at` on, and fields of the run. Publish them.
  local size = 0
  for place = at, #ARGV do
    redis.call('XADD', log, integer(first + place - at) .. '-0', 'record', ARGV[place])
    size = size + #ARGV[place]
  end
  redis.call('HSET', run, ...)
  if kind == '' and (at > #ARGV or not is_watched(by)) then return end
  local words = {kind}
  if at <= #ARGV then
    words[2] = first
    if size <= 16384 then words[3] = table.concat(ARGV, '\\n', at) end
  end
  redis.call('PUBLISH', news, table.concat(words, '\\n'))
end
"""

# ARGV: the channel, the store that writes, token, first seq, updated, and the records. If anything
# does not match, the caller reads the run and applies the rules.
_APPEND: Final = """
local by, token, first, updated = unpack(ARGV, 2, 5)
local found = redis.call('HMGET', run, 'format', 'token', 'seq', 'status', 'listed')
local is_open = found[4] == 'running' or found[4] == 'paused'
if found[1] ~= FORMAT or found[2] ~= token or tonumber(found[3]) ~= first - 1 or not is_open
  or (tonumber(found[5]) or -math.huge) < tonumber(updated) then return {'refused'} end
write(by, '', first, 6, 'seq', integer(first + #ARGV - 6), 'updated', updated)
return {'done'}
"""

# ARGV 1 to 3: the channel, the store that writes, a new nonce.
# 4 and 5: the version that was read, '' for a new run; the seq that was read, '' if any matches.
# 6 to 8: ms to live, '' for no limit; the kind of the message; the first seq.
# From 9: how many names and values of fields follow, these, the records.
# A new run is not created if KEYS[3] exists.
_CHANGE: Final = """
local by, nonce, version, seq, to_live, kind, first, fields = unpack(ARGV, 2, 9)
local changes = redis.call('HGET', run, 'changes') or ''
if changes:find(nonce, 1, true) then return {'done'} end
if version == '' then
  if redis.call('HEXISTS', run, 'token') == 1 then return {'exists'} end
  if redis.call('EXISTS', KEYS[3]) == 1 then return {'void'} end
  redis.call('XLEN', log)  -- fails before anything is written if the key is not a stream
  redis.call('DEL', log)
elseif is_newer(version, seq) then
  return load()
end
changes = nonce .. changes:sub(1, NONCE * (NONCES - 1))
write(by, kind, first, 10 + fields, 'changes', changes, unpack(ARGV, 10, 9 + fields))
if to_live ~= '' then
  redis.call('PEXPIRE', run, to_live)
  redis.call('PEXPIRE', log, to_live)
end
return {'done'}
"""

# ARGV: the channel, and the version and the seq that were read.
_DELETE: Final = """
if is_newer(ARGV[2], ARGV[3]) then return load() end
redis.call('PUBLISH', news, 'gone')
redis.call('DEL', run, log)
return {'done'}
"""

# ARGV: the channel, after which seq, how many, and if the store that reads watches the run, its ID
# and for how many ms. The records are returned as one text, because the client reads that faster
# than many texts. At least one, however large.
_READ: Final = """
local found = redis.call('HMGET', run, 'seq', 'format')
if not found[1] then return {'unknown'} end
if ARGV[4] then watch(ARGV[4], ARGV[5]) end
local records = redis.call('XRANGE', log, integer(ARGV[2] + 1) .. '-0', '+', 'COUNT', ARGV[3])
local lines, size = {}, 0
for place, entry in ipairs(records) do
  size = size + #entry[2][2]
  if place > 1 and size > 4000000 then break end
  lines[place] = entry[2][2]
end
return {'done', found[1], found[2] or '1', table.concat(lines, '\\n')}
"""

_VOID: Final = """
if redis.call('HGET', KEYS[1], 'identity') == ARGV[1] then return {'exists'} end
redis.call('SET', KEYS[2], '', 'PX', 3600000)
return {'done'}
"""

# ARGV: the title and the time of a conversation if it is new, and the time of its newest run.
_CONVERSATION: Final = """
redis.call('HSETNX', KEYS[1], 'title', ARGV[1])
redis.call('HSETNX', KEYS[1], 'created', ARGV[2])
redis.call('HSET', KEYS[1], 'updated', ARGV[3])
redis.call('HDEL', KEYS[1], 'deleted_at')
return {'done'}
"""

# ARGV: an entry, and how the entries of its user end.
_LEAVE: Final = """
redis.call('ZREM', KEYS[1], ARGV[1])
for _, entry in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  if entry:sub(-#ARGV[2]) == ARGV[2] then return {'done'} end
end
redis.call('DEL', KEYS[2])
return {'done'}
"""

_COMMON: Final = f"local FORMAT, NONCE, NONCES = '{FORMAT}', {NONCE}, {_NONCES}\n{_FUNCTIONS}"

SCRIPTS: Final = {
    "load": _COMMON + "return load()",
    "append": _COMMON + _APPEND,
    "change": _COMMON + _CHANGE,
    "delete": _COMMON + _DELETE,
    "read": _COMMON + _READ,
    "void": _VOID,
    "conversation": _CONVERSATION,
    "leave": _LEAVE,
}
