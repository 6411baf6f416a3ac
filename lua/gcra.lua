-- GCRA, the generic cell rate algorithm (ITU-T I.371): the state is the theoretical arrival time (TAT) of the next cell.
--
-- Why atomic: the TAT is read, advanced by cost emission intervals and written back.
--
-- State    TAT '>I7I3' as µs and millionths, then the emission interval it was counted in, '>I7I3': under another limit
--          the same number of intervals is outstanding. Then '>I7': when it was written.
-- In doubt as much is outstanding as when it was written, which time stays; what is taken meanwhile is kept behind it,
--          '>I7I3I7': span and the time of the last take. Once in doubt no more, that goes on top of what was outstanding then.
-- Limit    {burst, interval, millionths}: the interval is rounded up, so never faster than the limit; burst 0 denies all.
--          burst * interval is at most 100 years
-- Expires  60 s after the TAT, rounded up to a second
-- Twin     lib/core/gcra.c
--
-- Spans are pairs: whole µs and millionths of one, 0 .. 999999.
do -- the main function may have 200 locals

local function gcra_times(n, us, millionths)
  local part = n * millionths
  return n * us + (part - part % 1000000) / 1000000, part % 1000000
end

local function gcra_minus(a, a_part, b, b_part)
  if a_part < b_part then
    return a - b - 1, a_part + 1000000 - b_part
  end
  return a - b, a_part - b_part
end

-- Whole intervals in a span, at most `most` (up to 10^9): a guess by division, which is off by one at most, put right
-- by multiplication.
local function gcra_count(us, millionths, interval, part, most)
  if us < 0 then
    return 0
  end
  local n = (us + millionths / 1000000) / (interval + part / 1000000)
  n = n < most and n - n % 1 or most
  while n < most do
    local up, up_part = gcra_times(n + 1, interval, part)
    if up < us or (up == us and up_part <= millionths) then
      n = n + 1
    else
      break
    end
  end
  while n > 0 do
    local to, to_part = gcra_times(n, interval, part)
    if to > us or (to == us and to_part > millionths) then
      n = n - 1
    else
      break
    end
  end
  return n
end

local function gcra_plus(a, a_part, b, b_part)
  local part = a_part + b_part
  if part >= 1000000 then
    return a + b + 1, part - 1000000
  end
  return a + b, part
end

-- As many intervals of another limit, a part of one counted as one.
local function gcra_recount(us, part, interval, millionths, l)
  local n = gcra_count(us, part, interval, millionths, 1000000000)
  local rest, rest_part = gcra_times(n, interval, millionths)
  if rest < us or rest_part < part then
    n = n + 1
  end
  return gcra_times(n < l[1] and n or l[1], l[2], l[3])
end

-- What is outstanding at `time`: the TAT `us`, `part`, and what was taken in doubt until `stop`.
local function gcra_at(time, us, part, taken, taken_part, stop)
  if taken + taken_part > 0 then
    stop = stop < now and stop or now
    if us < stop then
      us, part = stop, 0
    end
    us, part = gcra_plus(us, part, taken, taken_part)
  end
  if us < time then
    return 0, 0
  end
  return us - time, part
end

-- s.us, s.part: what is outstanding, TAT - now, never negative. In doubt: s.base, s.base_part of it were when it was
-- written, s.last.
local function gcra_load(key, text, l)
  if not text or (#text ~= 27 and #text ~= 44) then
    return {us = 0, part = 0, base = 0, base_part = 0, last = now, stop = 0}
  end
  local us, part, interval, millionths, last = unpack_fields('>I7I3I7I3I7', text)
  local taken, taken_part, stop = 0, 0, 0
  if #text == 44 then
    taken, taken_part, stop = unpack_fields('>I7I3I7', text, 28)
  end
  local other = (interval ~= l[2] or millionths ~= l[3]) and l[1] > 0
  local s = {last = last, stop = stop}
  if doubted then
    us, part = gcra_at(last, us, part, 0, 0, 0)
    if other then
      us, part = gcra_recount(us, part, interval, millionths, l)
      taken, taken_part = gcra_recount(taken, taken_part, interval, millionths, l)
    end
    s.base, s.base_part = us, part
    s.us, s.part = gcra_plus(us, part, taken, taken_part)
    return s
  end
  s.us, s.part = gcra_at(now, us, part, taken, taken_part, stop)
  if other and s.us + s.part > 0 then
    s.us, s.part = gcra_recount(s.us, s.part, interval, millionths, l)
    s.changed = true
  end
  return s
end

-- What is outstanding beyond the room that `cost` needs, rounded up.
local function gcra_wait(s, l, cost)
  if cost > l[1] then
    return -1
  end
  local us, part = gcra_minus(s.us, s.part, gcra_times(l[1] - cost, l[2], l[3]))
  if us < 0 or (us == 0 and part == 0) then
    return 0
  end
  return later(part > 0 and us + 1 or us)
end

local function gcra_take(s, l, cost)
  s.us, s.part = gcra_plus(s.us, s.part, gcra_times(cost, l[2], l[3]))
end

local function gcra_untake(s, l, cost)
  s.us, s.part = gcra_minus(s.us, s.part, gcra_times(cost, l[2], l[3]))
end

-- Intervals outstanding; one that has passed in part counts.
local function gcra_holds(s, l)
  if l[1] == 0 then
    return 0
  end
  local n = gcra_count(s.us, s.part, l[2], l[3], l[1])
  local us, part = gcra_times(n, l[2], l[3])
  return (us < s.us or part < s.part) and n + 1 or n
end

local function gcra_give(s, l, cost)
  if l[1] == 0 or gcra_count(s.us, s.part, l[2], l[3], l[1]) < cost then
    local given = gcra_holds(s, l)
    s.us, s.part = 0, 0
    return given
  end
  gcra_untake(s, l, cost)
  return cost
end

local function gcra_left(s, l)
  if l[1] == 0 then
    return 0, -1, 0
  end
  local us, part = gcra_times(l[1], l[2], l[3])
  us, part = gcra_minus(us, part, s.us, s.part)
  local n = gcra_count(us, part, l[2], l[3], l[1])
  return n, n < l[1] and gcra_wait(s, l, n + 1) or 0, s.part > 0 and s.us + 1 or s.us
end

local function gcra_save(key, s, l)
  if s.us == 0 and s.part == 0 then
    return call('DEL', key)
  end
  local us, part, last, taken = s.us, s.part, now, ''
  if doubted then
    local more, more_part = gcra_minus(us, part, s.base, s.base_part)
    if more >= 0 then
      us, part = s.base, s.base_part
      taken = pack_fields('>I7I3I7', more, more_part, s.stop > now and s.stop or now)
    end
    last = s.last
  end
  call('SET', key, pack_fields('>I7I3I7I3I7', last + us, part, l[2], l[3], last) .. taken, 'PXAT',
    expiry_text(now + s.us))
end

algorithms[1] = {
  load = gcra_load,
  wait = gcra_wait,
  take = gcra_take,
  untake = gcra_untake,
  give = gcra_give,
  holds = gcra_holds,
  left = gcra_left,
  save = gcra_save,
}
end
