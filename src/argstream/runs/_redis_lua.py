"""The scripts that run inside the Redis server, in Lua. Each is atomic.

A run has two keys:

- ``PREFIX:{RUN}:run``, a hash: ``format``, ``conversation``, ``user``, ``agent``, ``status``,
  ``seq``, ``created`` and ``updated``; ``token`` of the newest lease, and unless that was given up
  its ``owner`` and ``until`` (in ms); ``pending:CALL`` with the digest of a request,
  ``decider:CALL`` and, until it is used, ``decision:CALL`` with the decision; ``stop`` with the
  reason; the nonces by which a repeated request is detected: ``identity``, ``acquired``,
  ``reopened``. The first is also the identity of the run: one that gets the same name later is
  another.
- ``PREFIX:{RUN}:log``, a stream: the records under their seq, ``SEQ-0``, each with the one field
  ``record``: a line of JSON.

Others serve to find runs:

- ``PREFIX:runs``, a sorted set: the IDs of all runs, by the time of their newest record.
- ``PREFIX:unfinished``, ``PREFIX:{CONVERSATION}:conversation``, ``PREFIX:{USER}:user``, sets: the
  IDs of runs that are not over, of a conversation, and of a user. A record changes nothing in them:
  the first one has their order.
- ``PREFIX:whose``, a hash: for each run in these, ``[CONVERSATION,USER]`` in JSON. With that
  it is found in its sets when the server has forgotten the run.

In the names of keys, ``RUN``, ``CONVERSATION`` and ``USER`` are IDs with ``%``, ``{`` and ``}``
percent-encoded. So no ID makes a key of another prefix, and the hash tag that a cluster sees is the
whole ID.

Changes of a run are published on the channel ``PREFIX:{RUN}:news:DATABASE``: channels know no
databases. The lines are the kind (``gone``, ``commands``, or empty if only records were written),
the identity of the run, and if records were written the seq of the first and, unless they are
large, the records. Times are those of the server, so that the clocks of other machines need not
agree.

A connection may be lost before the answer comes, so each script can be repeated and changes nothing
the second time. For that the caller sends a nonce where the arguments do not tell. The first
request may even arrive after the second, when the lease that it got was long given up; so a lease
is requested with the token that it follows, and not given after any other.

Each returns a list: a word, and what belongs to it. None reads or writes keys that it is not given.
"""

from typing import Final

FORMAT: Final = "3"
"""The version of this format. Runs of version 1 have no field ``format``, and are not read."""

_TIDY: Final = """
local index, unfinished, whose = unpack(KEYS, 1, 3)
for place = 1, #ARGV / 2 do
  local id, told = ARGV[2 * place - 1], ARGV[2 * place]
  local run, conversation, user = unpack(KEYS, 3 * place + 1, 3 * place + 3)
  if redis.call('EXISTS', run) == 0 and (redis.call('HGET', whose, id) or '') == told then
    redis.call('ZREM', index, id)
    redis.call('HDEL', whose, id)
    for _, set in ipairs({unfinished, conversation, user}) do redis.call('SREM', set, id) end
  end
end
return {'done'}
"""

_WHOSE: Final = """
local found = {}
for place, id in ipairs(ARGV) do found[place] = redis.call('HGET', KEYS[1], id) end
return {'done', found}
"""

_LOOK: Final = """
local found = {}
for place, key in ipairs(KEYS) do
  found[place] = redis.pcall('HGETALL', key)
  if found[place].err then
    if not found[place].err:find('WRONGTYPE') then return found[place] end
    found[place] = {'', ''}  -- something that is no run
  end
end
local time = redis.call('TIME')
return {'done', time[1] .. '.' .. string.format('%06d', time[2]), found}
"""

# The index, and sets that a run must be in; how many are wanted.
_NEWEST: Final = """
local count = tonumber(ARGV[1])
if #KEYS == 1 then return {'done', redis.call('ZREVRANGE', KEYS[1], 0, count - 1)} end
local question = {'ZINTER', #KEYS}
for _, key in ipairs(KEYS) do question[#question + 1] = key end
question[#question + 1] = 'WEIGHTS'
for place = 1, #KEYS do question[#question + 1] = place == 1 and 1 or 0 end
local found = redis.call(unpack(question))
local newest = {}
for place = #found, math.max(1, #found - count + 1), -1 do newest[#newest + 1] = found[place] end
return {'done', newest}
"""

_OLDEST: Final = """
local time = redis.call('TIME')
local till = string.format('%.6f', time[1] + time[2] / 1000000 - ARGV[1])
return {'done', till, redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', till)}
"""

_FUNCTIONS: Final = """
local run, log, index, news, unfinished, whose = unpack(KEYS, 1, 6)
-- KEYS from the 7th on, if there are more: the other sets that the run is in.

local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function whole(number)
  return string.format('%.0f', number)
end

local function taken()
  local lease = redis.call('HMGET', run, 'owner', 'until')
  return {'taken', lease[1] or '', whole(math.max(0, (tonumber(lease[2]) or 0) - now()))}
end

local function lost(token)
  -- What is wrong with a lease, nil if nothing is.
  local newest = redis.call('HGET', run, 'token')
  if not newest then return {'unknown'} end
  if newest ~= token then
    local lease = taken()
    return {'lost', lease[2], lease[3]}
  end
  return nil
end

local function is_driven()
  local till = redis.call('HGET', run, 'until')
  return till and tonumber(till) > now()
end

local function is_over()
  local status = redis.call('HGET', run, 'status')
  return status ~= 'running' and status ~= 'paused'
end

local function let_go()
  redis.call('HINCRBY', run, 'token', 1)
  redis.call('HDEL', run, 'owner', 'until')
end

local function tell(kind, ...)
  local identity = redis.call('HGET', run, 'identity') or ''
  redis.call('PUBLISH', news, table.concat({kind, identity, ...}, '\\n'))
end

local function is_elsewhere()
  -- Whether it is in other sets than those that the caller knows of.
  return (redis.call('HGET', whose, ARGV[1]) or '') ~= ARGV[2]
end

local function unlist()
  redis.call('ZREM', index, ARGV[1])
  redis.call('SREM', unfinished, ARGV[1])
  redis.call('HDEL', whose, ARGV[1])
  for place = 7, #KEYS do redis.call('SREM', KEYS[place], ARGV[1]) end
end

local function forget()
  tell('gone')
  redis.call('DEL', run, log)
  unlist()
end

-- ARGV from `at` on: run id, first seq, updated, status, '1' if the lease is released, ms to live,
-- number of calls, for each its name, and '=' with the digest of a request or '' if it is decided
-- on; then the records.

local function enter(at)
  -- Note it in the index. Before all else: it fails if a key is something else's.
  redis.call('XLEN', log)
  redis.call('SCARD', unfinished)
  redis.call('ZADD', index, ARGV[at + 2], ARGV[at])
end

local function write(at)
  local first, updated, status, rests, to_live, calls = unpack(ARGV, at + 1, at + 6)
  local records = at + 7 + 2 * calls
  local size = 0
  for place = records, #ARGV do
    redis.call('XADD', log, whole(first + place - records) .. '-0', 'record', ARGV[place])
    size = size + #ARGV[place]
  end
  redis.call('HSET', run, 'seq', whole(first + #ARGV - records), 'updated', updated)
  for place = at + 7, records - 1, 2 do
    local name, digest = ARGV[place], ARGV[place + 1]
    if digest == '' then
      redis.call('HDEL', run, 'pending:' .. name, 'decision:' .. name)
      redis.call('HSETNX', run, 'decider:' .. name, '')
    elseif redis.call('HGET', run, 'pending:' .. name) ~= digest:sub(2) then
      redis.call('HSET', run, 'pending:' .. name, digest:sub(2))
      redis.call('HDEL', run, 'decider:' .. name, 'decision:' .. name)
    end
  end
  local ends = false
  if status ~= '' then
    redis.call('HSET', run, 'status', status)
    ends = is_over()
    redis.call(ends and 'SREM' or 'SADD', unfinished, ARGV[at])
    if rests == '1' then let_go() end  -- no process has to drive it
    if ends and to_live ~= '' then
      redis.call('PEXPIRE', run, to_live)
      redis.call('PEXPIRE', log, to_live)
    end
  end
  local kind = (ends or calls ~= '0') and 'commands' or ''
  if size <= 16384 then
    tell(kind, first, table.concat(ARGV, '\\n', records))
  else
    tell(kind, first)
  end
end

local function is_there(at, seq)
  -- Whether the log, which goes to `seq`, has just these records already; 'other' if it has others
  -- under their seqs.
  local first, calls = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 6])
  local records = at + 7 + 2 * calls
  local last = first + #ARGV - records
  if last > tonumber(seq) then return false end
  local found = redis.call('XRANGE', log, whole(first) .. '-0', whole(last) .. '-0')
  for place = records, #ARGV do
    local entry = found[place - records + 1]
    if not entry or entry[2][2] ~= ARGV[place] then return 'other' end
  end
  return true
end
"""

_CREATE: Final = """
local owner, nonce, lasts, conversation, user, told, agent, created = unpack(ARGV, 1, 8)
local found = redis.call('HMGET', run, 'token', 'identity')
if found[1] then return {found[2] == nonce and 'done' or 'exists'} end
for place = 7, #KEYS do redis.call('SCARD', KEYS[place]) end
redis.call('HLEN', whose)
enter(9)
redis.call('DEL', log)
redis.call('HSET', whose, ARGV[9], told)
for place = 7, #KEYS do redis.call('SADD', KEYS[place], ARGV[9]) end
redis.call('HSET', run, 'format', FORMAT, 'conversation', conversation, 'user', user,
  'agent', agent, 'created', created, 'token', 1, 'owner', owner, 'identity', nonce,
  'until', whole(now() + lasts), 'status', 'running')
write(9)
return {'done'}
"""

_ACQUIRE: Final = """
local owner, nonce, lasts, after = unpack(ARGV)
local found = redis.call('HMGET', run, 'token', 'acquired')
if not found[1] then return {'unknown'} end
local token = whole((tonumber(after) or 0) + 1)
local is_mine = found[1] == token and found[2] == nonce
if not is_mine then
  if is_driven() then return taken() end
  if found[1] ~= after then return {'after', found[1]} end
end
redis.call('HSET', run, 'token', token, 'owner', owner, 'acquired', nonce,
  'until', whole(now() + lasts))
return {'done', token}
"""

_RENEW: Final = """
local refused = lost(ARGV[1])
if refused then return refused end
redis.call('HSET', run, 'until', whole(now() + ARGV[2]))
return {'done'}
"""

_RELEASE: Final = """
local refused = lost(ARGV[1])
if refused then return refused end
let_go()
return {'done'}
"""

_APPEND: Final = """
local last = redis.call('HGET', run, 'seq')
if not last then return {'unknown'} end
local there = is_there(2, last)
if there == true then return {'done'} end
local refused = lost(ARGV[1])
if refused then return refused end
if there then return {'other'} end
if is_over() then return {'over', redis.call('HGET', run, 'status')} end
if tonumber(ARGV[3]) ~= last + 1 then return {'gap', last} end
enter(2)
write(2)
return {'done'}
"""

_REOPEN: Final = """
local refused = lost(ARGV[1])
if refused then return refused end
if redis.call('HGET', run, 'reopened') == ARGV[3] then return {'done'} end
if redis.call('HDEL', run, 'decision:' .. ARGV[2]) == 1 then
  redis.call('HDEL', run, 'decider:' .. ARGV[2])
  redis.call('HSET', run, 'reopened', ARGV[3])
  tell('commands')
end
return {'done'}
"""

# As one text, since to read many of them takes the client longer. At least one, however large.
_READ: Final = """
local last, created, identity = unpack(redis.call('HMGET', run, 'seq', 'created', 'identity'))
if not last then return {'unknown'} end
local found = redis.call('XRANGE', log, whole(ARGV[1] + 1) .. '-0', '+', 'COUNT', ARGV[2])
local lines, size = {}, 0
for place, entry in ipairs(found) do
  size = size + #entry[2][2]
  if place > 1 and size > 4000000 then break end
  lines[place] = entry[2][2]
end
return {'done', last, created, identity, table.concat(lines, '\\n')}
"""

_DECIDE: Final = """
if redis.call('EXISTS', run) == 0 then return {'unknown'} end
local nonce, left = ARGV[1], {}
for at = 2, #ARGV, 3 do
  local name, digest = ARGV[at], ARGV[at + 1]
  local decider = redis.call('HGET', run, 'decider:' .. name)
  if decider ~= nonce then
    local pending = redis.call('HGET', run, 'pending:' .. name)
    if decider then return {'decided', name} end
    if is_over() or not pending then return {'unasked', name} end
    if digest ~= '' and digest ~= pending then return {'digest', name} end
    left[#left + 1] = at
  end
end
for _, at in ipairs(left) do
  redis.call('HSET', run, 'decider:' .. ARGV[at], nonce, 'decision:' .. ARGV[at], ARGV[at + 2])
end
if #left > 0 then tell('commands') end
return {'done'}
"""

_STOP: Final = """
if redis.call('EXISTS', run) == 0 then return {'unknown'} end
if is_over() then return {'over', redis.call('HGET', run, 'status')} end
if redis.call('HSETNX', run, 'stop', ARGV[1]) == 1 then tell('commands') end
return {'done'}
"""

_DELETE: Final = """
if redis.call('EXISTS', run) == 0 then
  if not is_elsewhere() then unlist() end
  return {'unknown'}
end
if is_elsewhere() then return {'moved'} end
if is_driven() and not is_over() then return taken() end
forget()
return {'done'}
"""

_EXPIRE: Final = """
local updated = redis.call('HGET', run, 'updated')
if not updated then
  if not is_elsewhere() then unlist() end
  return {'unknown'}
end
if is_elsewhere() then return {'moved'} end
if tonumber(updated) > tonumber(ARGV[3]) then return {'newer'} end
if not is_over() and (ARGV[4] == '' or is_driven()) then return {'needed'} end
forget()
return {'done'}
"""

# At the start of each script that reads or changes a run. Older runs can only be deleted.
_COMMON: Final = (
    _FUNCTIONS
    + f"""
local FORMAT = '{FORMAT}'
local format = redis.call('HGET', run, 'format')
if format ~= FORMAT and redis.call('HEXISTS', run, 'token') == 1 then
  return {{'format', format or '1'}}
end
"""
)

SCRIPTS: Final = {
    "tidy": _TIDY,
    "whose": _WHOSE,
    "look": _LOOK,
    "newest": _NEWEST,
    "oldest": _OLDEST,
    "create": _COMMON + _CREATE,
    "acquire": _COMMON + _ACQUIRE,
    "renew": _COMMON + _RENEW,
    "release": _COMMON + _RELEASE,
    "append": _COMMON + _APPEND,
    "reopen": _COMMON + _REOPEN,
    "read": _COMMON + _READ,
    "decide": _COMMON + _DECIDE,
    "stop": _COMMON + _STOP,
    "delete": _FUNCTIONS + _DELETE,
    "expire": _FUNCTIONS + _EXPIRE,
}
