-- Sliding window counter: about N in any span of W, from two counters. Approximate by design, and cheap.
--
-- Why atomic: read, roll the windows on, add, write back.
--
-- State    '>I7I4I4I7': start of the current window (µs), what was taken in the one before and in the current one, and when
--          it was written
-- In doubt as much counts as when it was written, which time stays; where a new window begins, all of it as taken in the
--          one before.
-- Estimate before * rest / ticks + current, where the windows are aligned to the epoch and rest is what the sliding
--          window still covers of the one before. In ticks of at least W / 4 000 000, rounded up, so that a product of
--          an amount and a number of ticks stays below 2^53.
-- Limit    {N, W, tick, ticks}: tick in µs, ticks in a window; N 0 denies all
-- Expires  60 s after the current window is out of reach
-- Twin     lib/core/counter.c
do -- the main function may have 200 locals

-- Ticks of the window before the one that starts at `start` that are still covered at `time`.
local function counter_rest(l, start, time)
  local passed = time > start and time - start or 0
  passed = passed < l[2] and passed or l[2]
  return l[4] - (passed - passed % l[3]) / l[3]
end

local function counter_load(key, text, l)
  local window = l[2]
  local start = now - now % window
  local s = {start = start, before = 0, current = 0, last = now}
  if text and #text == 22 then
    local was, before, current, last = unpack_fields('>I7I4I4I7', text)
    if was >= start then -- this window, or the clock went back
      s.start, s.before, s.current = was, before, current
      s.last = doubted and last or now
    elseif doubted then
      s.before, s.last = round_up(before * counter_rest(l, was, last), l[4]) + current, start
    elseif was >= start - window then
      s.before = current
    end
  end
  s.rest = counter_rest(l, s.start, s.last)
  return s
end

-- The instant at which no more than `ticks` of the window that starts at `start` are covered, from now.
local function counter_time(l, start, ticks)
  if ticks >= l[4] then
    return start - now
  end
  return (ticks > 0 and start + (l[4] - ticks) * l[3] or start + l[2]) - now
end

-- The most ticks that `weight` may count for when `room` is left.
local function counter_ticks(l, weight, room)
  if weight == 0 then
    return l[4]
  end
  local ticks = room * l[4]
  return (ticks - ticks % weight) / weight
end

local function counter_wait(s, l, cost)
  local room = l[1] - cost - s.current
  if cost > l[1] then
    return -1
  end
  if room >= 0 then
    if s.before * s.rest <= room * l[4] then
      return 0
    end
    return later(counter_time(l, s.start, counter_ticks(l, s.before, room)))
  end
  return later(counter_time(l, s.start + l[2], counter_ticks(l, s.current, l[1] - cost)))
end

local function counter_give(s, l, cost, stamp)
  local part = stamp >= s.start and 'current' or stamp >= s.start - l[2] and 'before' or nil
  if not part then
    return 0
  end
  local given = cost < s[part] and cost or s[part]
  s[part] = s[part] - given
  return given
end

local function counter_left(s, l)
  local free = (l[1] - s.current) * l[4] - s.before * s.rest
  local left = free > 0 and (free - free % l[4]) / l[4] or 0
  local reset = s.current > 0 and 2 * l[2] or s.before > 0 and l[2] or 0
  local more = l[1] == 0 and -1 or left < l[1] and counter_wait(s, l, left + 1) or 0
  return left, more, reset > 0 and s.start + reset - now or 0
end

local function counter_save(key, s, l)
  if s.before == 0 and s.current == 0 then
    return call('DEL', key)
  end
  call('SET', key, pack_fields('>I7I4I4I7', s.start, s.before, s.current, s.last), 'PXAT',
    expiry_text(s.start + 2 * l[2]))
end

algorithms[3] = {
  load = counter_load,
  wait = counter_wait,
  take = function(s, l, cost) s.current = s.current + cost end,
  untake = function(s, l, cost) s.current = s.current - cost end,
  give = counter_give,
  holds = function(s) return s.before + s.current end,
  left = counter_left,
  save = counter_save,
}
end
