-- GCRA, the generic cell rate algorithm (ITU-T I.371): the state is the theoretical arrival time (TAT) of the next cell.
--
-- Why atomic: the TAT is read, advanced by cost emission intervals and written back.
--
-- State    TAT '>I7I3' as µs and millionths, then the emission interval it was counted in, '>I7I3': under another limit
--          the same number of intervals is outstanding.
-- Limit    {burst, interval, millionths}: the interval is rounded up, so never faster than the limit; burst 0 denies all.
--          burst * interval is at most 100 years
-- Expires  60 s after the TAT, rounded up to a second
-- Twin     lib/core/gcra.c
--
-- Spans are pairs: whole µs and millionths of one, 0 .. 999999.

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

-- s.us, s.part: what is outstanding, TAT - now, never negative.
local function gcra_load(key, text, l)
  if not text or #text ~= 20 then
    return {us = 0, part = 0}
  end
  local us, part, interval, millionths = unpack_fields('>I7I3I7I3', text)
  us = us - now
  if us < 0 then
    return {us = 0, part = 0}
  end
  if (interval ~= l[2] or millionths ~= l[3]) and l[1] > 0 then
    local n = gcra_count(us, part, interval, millionths, 1000000000)
    local rest, rest_part = gcra_times(n, interval, millionths)
    if rest < us or rest_part < part then
      n = n + 1
    end
    us, part = gcra_times(n < l[1] and n or l[1], l[2], l[3])
    return {us = us, part = part, changed = true}
  end
  return {us = us, part = part}
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
  return part > 0 and us + 1 or us
end

local function gcra_take(s, l, cost)
  local us, part = gcra_times(cost, l[2], l[3])
  us, part = s.us + us, s.part + part
  if part >= 1000000 then
    us, part = us + 1, part - 1000000
  end
  s.us, s.part = us, part
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
  call('SET', key, pack_fields('>I7I3I7I3', now + s.us, s.part, l[2], l[3]), 'PXAT', expiry_text(now + s.us))
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
