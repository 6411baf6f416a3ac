-- Token bucket: `burst` tokens at most, refilled by p millionths each q µs (p/q = limit / per in lowest terms).
--
-- Why atomic: two agents that both read "1 left" must not both take it.
--
-- State    a decimal text: (debt / scale) * 4 + code, then nine digits of time. The debt is what is missing to full: a
--          key that is absent is full under any limit, and a raised limit has room at once. The time is a whole tenth
--          of a second, modulo 10^9 of them (3.2 years); the debt is the one that, refilled from then on, is right
--          now. code names the scale, the largest of 1, 10, 1000, 10^6 that divides every debt of this limit. So the
--          text is an integer of at most 63 bits unless the burst is huge, and Redis needs no string object for it.
--          A key with leases holds another text, which begins with 'L': leased_bucket.lua; one that is held, with 'H'; one for
--          which callers wait, with 'Q'. One of another scope, with 'S' (shared_bucket.lua), is empty.
-- Refill   in whole quanta counted from the epoch, so none is lost however often it is asked. A clock that went back to
--          before the state's time refills nothing, and the state keeps that time: should the clock come back, what
--          passed meanwhile is not refilled twice.
-- In doubt nothing is refilled beyond the tenth of a second in which the state was written, and the state becomes one of
--          leased_bucket.lua, which remembers what is taken meanwhile.
-- Limit    {cap, p, q, scale, code}, cap in millionths of a token; cap 0 denies all
-- Expires  60 s after it is full again at the earliest. A state of a half minute's time outlives that half minute by
--          90 s, so that all further states of that half minute which are full 30 s later can leave its expiry as it is:
--          that halves what writing them costs Redis.
-- Twin     lib/core/bucket.c
local bucket_scales = {[0] = 1, 10, 1000, 1000000}
local tenth = (now - now % 100000) / 100000 -- the tenth of a second that we are in ...
local since = now % 100000                  -- ... and for how long, µs
local cycle = tenth % 1000000000
local cycle_text = format('%09d', cycle)
local expiry_texts = {} -- by second: many keys of a batch expire in the same one
local half_minute = 300 -- in tenths of a second
local in_half_minute = tenth % half_minute
-- Of a plain batch: the answers by debt, and the operations that decide.lua takes as any others.
local plain_reply, plain_ops

-- When a state expires that is `ahead` tenths later than now and full after `full` µs, as PXAT takes it.
local function bucket_expiry(ahead, full)
  local time = tenth + ahead
  local expiry, half_minute_end = time * 100000 + since + full, (time - time % half_minute + half_minute) * 100000
  if expiry < half_minute_end + 30000000 then
    expiry = half_minute_end + 30000000
  elseif expiry > forever then
    expiry = forever
  end
  expiry = (expiry - expiry % 1000000) / 1000000 + 62
  local text = expiry_texts[expiry]
  if not text then
    text = format('%d000', expiry)
    expiry_texts[expiry] = text
  end
  return text
end

-- Nearly every batch is plain: each operation takes from one token bucket, without extras. It comes key by key, and what
-- is answered is the debt of each key as it was found: the agent knows what was asked of it and does the same arithmetic
-- (bucket_decide() of the twin). Keys in doubt, with leases, a hold or waiters are answered -1 and left to decide.lua. This loop is
-- the arithmetic of the functions below written out, so that a key costs no call but those that read and write it.
if plain == 1 then
  -- Runs of keys of which the same is asked: how many keys, limit, operations on each, cost of each operation.
  local n_runs, mixed, runs = 0, {}
  n_runs, at = unpack_fields('<H', program, at)
  runs = {unpack_fields('<' .. string.rep('HHHd', n_runs), program, at)}
  at = runs[4 * n_runs + 1]
  for i = 1, n_ops do -- by key, where the costs differ (operations: 0): all of them
    local key, cost
    key, cost, at = unpack_fields('<Hd', program, at)
    mixed[key] = mixed[key] or {}
    mixed[key][#mixed[key] + 1] = cost
  end

  local out, o, last = {stamp, stamp_high, now, 2 + (doubted and 1 or 0)}, 4, 0
  local tenth_us = tenth * 100000
  for run = 1, 4 * n_runs, 4 do
    local limit, count, cost = runs[run + 1], runs[run + 2], runs[run + 3] * 1000000
    local l = limits[limit]
    local cap, p, q, scale, code = l[1], l[2], l[3], l[4], l[5]
    local most = cap + ((99999 - 99999 % q) / q + 1) * p           -- bucket_most()
    local whole = now - now % q                                    -- the last quantum's instant
    local back = (whole - tenth_us + tenth_us % q) / q * p         -- refilled since the tenth began
    local first = last + 1
    last = last + runs[run]
    for key = first, last do
      local debt, text, costs = 0, strings[key], mixed[key]
      local number, scaled, time, ahead, outlives, changed
      if text then
        number = tonumber(text) or forever
        if number < forever then -- exact
          time = number % 1000000000
          scaled = (number - time) / 1000000000
        else
          scaled, time = tonumber(sub(text, 1, -10)), tonumber(sub(text, -9))
        end
        if scaled and time and scaled >= 0 then
          local code_then, ago = scaled % 4, (cycle - time) % 1000000000
          debt = (scaled - code_then) / 4 * bucket_scales[code_then]
          if ago < 500000000 then
            outlives = ago <= in_half_minute -- it expires 90 s after this half minute, or later
            if q == 1 then
              debt = debt - (ago * 100000 + since) * p
            else
              local from = tenth_us - ago * 100000
              debt = debt - (whole - from + from % q) / q * p
            end
            if debt < 0 then
              debt = 0
            end
          elseif debt > 0 then
            ahead = 1000000000 - ago -- in tenths: the clock went back
          end
          if debt > most then
            debt, changed = cap, cap > 0
          end
        end
      end

      local kind = text and not scaled and sub(text, 1, 1)
      o = o + 1
      if doubted or kind then
        out[o] = -1
        plain_ops = plain_ops or {}
        for i = 1, costs and #costs or count do
          plain_ops[#plain_ops + 1] = {limit, key, costs and costs[i] or cost / 1000000}
        end
        changed = false
      else
        out[o] = debt
        if count > 0 then
          if debt + cost <= cap then
            local fit = 1
            if count > 1 then
              local room = cap - debt
              fit = (room - room % cost) / cost
              fit = fit < count and fit or count
            end
            debt, changed = debt + fit * cost, true
          end
        else
          for i = 1, #costs do
            local own = costs[i] * 1000000
            if debt + own <= cap then
              debt, changed = debt + own, true
            end
          end
        end
      end

      if changed then
        local full = debt / p * q
        local stored = debt + (ahead and 0 or back) + scale - 1
        stored = (stored - stored % scale) / scale * 4 + code
        local keeps_expiry, new = outlives and full <= 30000000, stored * 1000000000 + cycle
        if keeps_expiry and number < forever and new < forever then
          call('INCRBY', keys[key], format('%d', new - number)) -- both are exact; the cheapest write
        else
          text = format('%d', stored) .. (ahead and format('%09d', (cycle + ahead) % 1000000000) or cycle_text)
          if keeps_expiry then
            call('SET', keys[key], text, 'KEEPTTL')
          else
            call('SET', keys[key], text, 'PXAT', bucket_expiry(ahead or 0, full))
          end
        end
      end
    end
  end

  plain_reply = pack_fields('<I2I6dB' .. string.rep('d', n_strings), unpack(out, 1, o))
  if not plain_ops then
    return plain_reply
  end
  n_ops = #plain_ops
end

-- From here on: any mixture of operations. Each algorithm is a table of functions over the state of a key:
--   load(key, text, l)        the state now; `text` is what the key holds (strings). s.changed: its meaning under this
--                             limit must be written even if nothing is taken
--   wait(s, l, cost)          µs until `cost` fits: 0 now, -1 never
--   take(s, l, cost, member)  takes; untake(s, l, cost) undoes the last take of this call
--   give(s, l, cost, stamp, member)  gives back what a take at `stamp` took; returns how much (of a bucket: with a fraction)
--   holds(s, l)               units that could be given back, a part of one counted as one
--   left(s, l)                remaining, µs until one more is there (0: full), µs until full
--   Where the algorithm has leases:
--   room(s, l)                units that could be taken now
--   leasable(s, l, id, stop)  whether one more lease, called `id`, may be outstanding until `stop`
--   lease(s, l, n, id, stop)  takes n for it
--   unlease(s, l, id, back)   ends it; gives `back` units of it back. Returns how many, nil: no such lease
--   save(key, s, l)           writes it, with an expiry
-- s.limit, s.key and s.dirty belong to decide.lua.
local algorithms = {}
local leased = {} -- a bucket's functions where leases are outstanding: leased_bucket.lua

-- The instant `us` from the epoch and a minute, as PXAT takes it: milliseconds, rounded up to a second.
local function expiry_text(us)
  if us > forever then
    us = forever
  end
  return format('%d000', (us - us % 1000000) / 1000000 + 62)
end

local function round_up(a, b)
  local rest = a % b
  if rest > 0 then
    return (a - rest) / b + 1
  end
  return a / b
end

-- What is refilled between two instants.
local function bucket_credit(l, from, to)
  local q = l[3]
  return (to - to % q - from + from % q) / q * l[2]
end

-- µs from now until `lack` more has been refilled.
local function bucket_time(s, l, lack)
  if s.leases and not doubted then
    return leased.time(s, l, lack)
  end
  local us = round_up(lack, l[2]) * l[3] - now % l[3]
  return us < forever and us or forever
end

-- More debt than this is from before the limit was lowered, and is forgotten. It may be above the burst by what a tenth of a
-- second refills: where the clock goes back, so does the debt, to what it will be when the clock comes there again.
local function bucket_most(l)
  return l[1] + ((99999 - 99999 % l[3]) / l[3] + 1) * l[2]
end

local function bucket_load(key, text, l)
  local scaled, time = text and tonumber(sub(text, 1, -10)), text and tonumber(sub(text, -9))
  if not scaled or not time or scaled < 0 then
    local empty = text and sub(text, 1, 1) == 'S' -- of another scope: shared_bucket.lua
    return leased.load(text, l) or {debt = empty and l[1] or 0, outstanding = 0, time = now, leases = doubted and {} or nil}
  end
  local code, ago = scaled % 4, (cycle - time) % 1000000000
  local s = {debt = (scaled - code) / 4 * bucket_scales[code], outstanding = 0}
  if doubted then
    return leased.doubt(s, l, tenth - (ago < 500000000 and ago or ago - 1000000000))
  end
  if ago < 500000000 then
    s.debt = s.debt - bucket_credit(l, (tenth - ago) * 100000, now)
    if s.debt < 0 then
      s.debt = 0
    end
  elseif s.debt > 0 then
    s.ahead = 1000000000 - ago
  end
  if s.debt > bucket_most(l) then
    s.debt, s.changed = l[1], l[1] > 0
  end
  return s
end

local function bucket_wait(s, l, cost)
  local lack = s.debt + cost * 1000000 - l[1]
  if lack <= 0 then
    return 0
  end
  return cost * 1000000 > l[1] and -1 or later(bucket_time(s, l, lack))
end

local function bucket_left(s, l)
  local left, lack = l[1] - s.debt, 1000000
  if s.debt == 0 then
    return left / 1000000, l[1] > 0 and 0 or -1, 0
  end
  if left < 0 then -- more is outstanding than a lowered limit holds, or the clock went back
    left, lack = 0, lack - left
  end
  return (left - left % 1000000) / 1000000, bucket_time(s, l, lack - left % 1000000), bucket_time(s, l, s.debt)
end

local function bucket_give(s, l, cost)
  local undone = doubted and leased.untake(s, cost * 1000000) or 0
  local given = cost * 1000000 - undone
  if given > s.debt - s.outstanding then
    given = s.debt - s.outstanding
  end
  s.debt = s.debt - given
  if s.debt == 0 then
    s.ahead, s.time = nil, now
  end
  return (undone + given) / 1000000
end

local function bucket_save(key, s, l)
  if s.debt == 0 then
    return call('DEL', key)
  end
  if s.leases then
    return leased.save(key, s, l)
  end
  local ahead = s.ahead or 0
  local stored = round_up(ahead > 0 and s.debt or s.debt + bucket_credit(l, tenth * 100000, now), l[4])
  local time = format('%09d', (cycle + ahead) % 1000000000)
  call('SET', key, format('%d', stored * 4 + l[5]) .. time, 'PXAT',
    bucket_expiry(ahead, s.debt / l[2] * l[3]))
end

algorithms[0] = {
  load = bucket_load,
  wait = bucket_wait,
  take = function(s, l, cost)
    if doubted then
      return leased.take(s, cost * 1000000)
    end
    s.debt = s.debt + cost * 1000000
  end,
  untake = function(s, l, cost)
    if doubted then
      return leased.untake(s, cost * 1000000)
    end
    s.debt = s.debt - cost * 1000000
  end,
  give = bucket_give,
  holds = function(s) return round_up(s.debt - s.outstanding + leased.taken(s), 1000000) end,
  left = bucket_left,
  save = bucket_save,
}
