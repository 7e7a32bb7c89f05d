"""The scripts of the Redis store that are about several runs: see ``_redis_scripts``."""

from typing import Final

__all__ = ["LIST_SCRIPTS"]

_TIDY: Final = """
local index, unfinished, whose = unpack(KEYS, 1, 3)
for place = 1, #ARGV / 2 do
  local id, told = ARGV[2 * place - 1], ARGV[2 * place]
  local run, session, user = unpack(KEYS, 3 * place + 1, 3 * place + 3)
  if redis.call('EXISTS', run) == 0 and (redis.call('HGET', whose, id) or '') == told then
    redis.call('ZREM', index, id)
    redis.call('HDEL', whose, id)
    for _, set in ipairs({unfinished, session, user}) do redis.call('SREM', set, id) end
  end
end
return {'done'}
"""

_WHOSE: Final = """
local found = {}
for place, id in ipairs(ARGV) do found[place] = redis.call('HGET', KEYS[1], id) end
return {'done', found}
"""

# Runs that were begun by a version that knew nothing of the sets.
_UNLISTED: Final = """
if redis.call('ZCARD', KEYS[1]) <= redis.call('HLEN', KEYS[2]) then return {'done', {}} end
local found = {}
for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  if redis.call('HEXISTS', KEYS[2], id) == 0 then found[#found + 1] = id end
end
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

LIST_SCRIPTS: Final = {
    "tidy": _TIDY,
    "whose": _WHOSE,
    "unlisted": _UNLISTED,
    "look": _LOOK,
    "newest": _NEWEST,
    "oldest": _OLDEST,
}
