-- Sliding window log: at most N in any span of W, exactly.
--
-- Why atomic: what is in the window is counted and added to in one step.
--
-- State    sorted set. Members '<time>:<weight>' with the time as score: all that was taken in the same µs is one entry.
--          And one member 'n', whose score is minus the sum of all weights: the total without a walk. Scores of entries
--          are positive, so 'n' is always the first.
--          A lease is the member 'L<id>:<weight>' with its end, which is later than now, as score: so it is in every window
--          in which a permit of it can be spent. What was spent of a returned lease is an entry of the return's time.
-- Share    of a quota (quota.lua): one more member, 'k<number of the clock>:0', score 0. Where that of now is missing the clock was
--          set since: all that is there stays for a whole window by the new one, leases included.
-- Window   half-open: an entry leaves when it is W old. Entries later than now (the clock went back) still count. In doubt
--          none leaves.
-- Limit    {N, W}; N 0 denies all
-- Expires  60 s after the newest entry leaves, rounded up to a second
-- Twin     lib/core/window.c
--
-- A log is also what concurrency.lua keeps, with the end of a permit as score. `s.span`: how long after its score an
-- entry leaves, W here.

local function log_weight(member)
  return tonumber(string.match(member, ':(%d+)$')) or 1
end

-- s.over: all that the key holds has left, and was not walked through. s.dead: what has left of s.total.
local function log_load(key, span)
  local s = {span = span, total = 0, dead = 0, added = 0, newest = 0}
  local newest = tonumber(call('ZRANGE', key, -1, -1, 'WITHSCORES')[2] or 0)
  if doubted then
    s.total, s.newest = -tonumber(call('ZSCORE', key, 'n') or 0), newest
    return s
  end
  if newest <= now - span then
    s.over = newest > 0
    return s
  end
  local gone = call('ZRANGEBYSCORE', key, '-inf', format('%d', now - span), 'WITHSCORES')
  for i = 1, #gone, 2 do
    if gone[i] == 'n' then
      s.total = -tonumber(gone[i + 1])
    else
      s.dead = s.dead + log_weight(gone[i])
    end
  end
  s.newest = newest
  return s
end

local function log_used(s)
  return s.total - s.dead + s.added
end

-- What was added in this call and is not written yet, in the order in which it leaves.
local function log_pending(s)
  if not s.new then
    return {{'', now, s.added}}
  end
  local pending = {unpack(s.new)}
  table.sort(pending, function(a, b) return a[2] < b[2] end)
  return pending
end

-- µs until entries with a weight of `need` will have left. A walk of at most 1024 entries: were there more, the caller is told
-- to wait for the newest.
local function log_wait(s, need)
  local pending, p, from, batch = log_pending(s), 1, 0, 8
  local low = doubted and '(0' or format('(%d', now - s.span)
  while from < 1024 do
    local rows = call('ZRANGEBYSCORE', s.key, low, '+inf', 'WITHSCORES', 'LIMIT', from, batch)
    for i = 1, #rows, 2 do
      local at_us = tonumber(rows[i + 1])
      while pending[p] and pending[p][2] <= at_us do
        need, p = need - pending[p][3], p + 1
        if need <= 0 then
          return pending[p - 1][2] + s.span - now
        end
      end
      need = need - log_weight(rows[i])
      if need <= 0 then
        return at_us + s.span - now
      end
    end
    if #rows < 2 * batch then
      break
    end
    from, batch = from + batch, 508
  end
  while pending[p] and from < 1024 do
    need, p = need - pending[p][3], p + 1
    if need <= 0 then
      return pending[p - 1][2] + s.span - now
    end
  end
  return s.newest + s.span - now
end

-- Before anything is written.
local function log_begin(s, key)
  if s.over then
    call('UNLINK', key)
    s.over = false
  end
end

local function log_save_entry(s, key, score, name)
  local weight = s.added
  while call('ZADD', key, 'NX', format('%d', score), format(name, weight)) == 0 do
    call('ZREM', key, format(name, weight)) -- the clock was at this µs before
    weight = 2 * weight
  end
end

-- Writes what changed; the caller has written the entries.
local function log_save_total(s, key, mark)
  if s.dead > 0 then
    call('ZREMRANGEBYSCORE', key, '(0', format('%d', now - s.span))
  end
  s.total, s.dead, s.added = log_used(s), 0, 0
  if s.total <= 0 then
    return call('DEL', key)
  end
  call('ZADD', key, format('%d', -s.total), 'n')
  if mark then
    call('ZADD', key, 0, mark)
  end
  call('PEXPIREAT', key, expiry_text(s.newest + s.span))
end

local function window_wait(s, l, cost)
  local need = log_used(s) + cost - l[1]
  if need <= 0 then
    return 0
  end
  return cost > l[1] and -1 or later(log_wait(s, need))
end

local function window_take(s, l, cost)
  s.added = s.added + cost
  if now > s.newest then
    s.before, s.newest = s.newest, now
  end
end

local function window_untake(s, l, cost)
  s.added = s.added - cost
  if s.added == 0 and s.before then
    s.newest, s.before = s.before, nil
  end
end

local function window_give(s, l, cost, stamp)
  if stamp <= now - s.span then
    return 0
  end
  local at_stamp = call('ZRANGEBYSCORE', s.key, format('%d', stamp), format('%d', stamp))
  local entry = at_stamp[1] -- digits come before the letter of a lease
  if not entry or sub(entry, 1, 1) == 'L' then
    return 0
  end
  local weight = log_weight(entry)
  local given = cost < weight and cost or weight
  call('ZREM', s.key, entry)
  if given < weight then
    call('ZADD', s.key, format('%d', stamp), format('%d:%d', stamp, weight - given))
  end
  s.total = s.total - given
  return given
end

local function log_left(s, l)
  local used = log_used(s)
  if used == 0 then
    return l[1], l[1] > 0 and 0 or -1, 0
  end
  local left = l[1] - used
  if l[1] == 0 then
    return 0, -1, later(s.newest + s.span - now)
  end
  return left > 0 and left or 0, later(log_wait(s, left < 0 and 1 - left or 1)), later(s.newest + s.span - now)
end

-- The leases that are outstanding: pairs of member and end. Should the clock have gone back, entries of later are among
-- them; too many to look at mean that the lease is not found, or that there are too many leases.
local function window_leases(s)
  return call('ZRANGEBYSCORE', s.key, format('(%d', now), '+inf', 'WITHSCORES', 'LIMIT', 0, LEASES_MAX)
end

local function window_lease_find(rows, id)
  for i = 1, #rows, 2 do
    if sub(rows[i], 1, 10) == 'L' .. id .. ':' then
      return rows[i]
    end
  end
end

local function window_leasable(s, l, id)
  local rows = window_leases(s)
  return #rows < 2 * LEASES_MAX and not window_lease_find(rows, id)
end

-- Written at once, after what this batch took before, so that whoever walks the log finds it in its place.
local function window_lease(s, l, n, id, stop)
  log_begin(s, s.key) -- not at the end, which would take the lease along
  call('ZADD', s.key, format('%d', stop), 'L' .. id .. format(':%d', n)) -- an id may hold NULs: %s ends there
  s.total = s.total + n
  if stop > s.newest then
    s.newest = stop
  end
end

local function window_unlease(s, l, id, back)
  local member = window_lease_find(window_leases(s), id)
  if not member then
    return nil
  end
  local weight = log_weight(member)
  back = back < weight and back or weight
  call('ZREM', s.key, member)
  s.total, s.added = s.total - weight, s.added + weight - back
  local last = call('ZRANGE', s.key, -1, -1, 'WITHSCORES')[2]
  s.newest = last and tonumber(last) or 0
  if s.added > 0 and now > s.newest then
    s.newest = now
  end
  return back
end

algorithms[2] = {
  load = function(key, _, l)
    if l.quota then
      quota.redate(key, l)
    end
    return log_load(key, l[2])
  end,
  wait = window_wait,
  take = window_take,
  untake = window_untake,
  give = window_give,
  holds = log_used,
  left = log_left,
  save = function(key, s, l)
    log_begin(s, key)
    if s.added > 0 then
      log_save_entry(s, key, now, format('%d', now) .. ':%d')
    end
    log_save_total(s, key, l.quota and quota.mark(l))
    if l.quota then
      quota.note_used(l, s.total, s.newest)
    end
  end,
  room = function(s, l) return l[1] - log_used(s) end,
  leasable = window_leasable,
  lease = window_lease,
  unlease = window_unlease,
}
