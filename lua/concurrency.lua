-- Concurrency: at most N permits at any instant; each ends by itself after `hold`, or when it is released. In doubt none
-- ends by itself.
--
-- Why atomic: the live permits are counted and one is added in one step.
--
-- State    a log as in sliding_window.lua. Score: the µs at which the permit ends. Member: the permit's name, with
--          ':<weight>' when it stands for more than one. A take without a permit's name (a plan's TAKE) gets one of its
--          own, '~<stamp>.<operation>.<check>', which nobody can release: it ends after `hold`. Behind one more '~' where
--          another agent's call of the same stamp has that name.
-- Limit    {N, hold}; N 0 denies all
-- Expires  60 s after the last permit ends
-- Twin     lib/core/concurrency.c
do -- the main function may have 200 locals

local function permit_member(name, weight)
  return weight == 1 and name or format('%s:%d', name, weight)
end

local function concurrency_load(key)
  local s = log_load(key, 0)
  s.new, s.before_new = {}, {}
  return s
end

local function concurrency_take(s, l, cost, name)
  local stop = now + l[2]
  local n = #s.new + 1
  s.new[n] = {permit_member(name, cost), stop, cost}
  s.before_new[n] = s.newest
  s.added = s.added + cost
  if stop > s.newest then
    s.newest = stop
  end
end

local function concurrency_untake(s, l, cost)
  local n = #s.new
  s.added, s.newest = s.added - cost, s.before_new[n]
  s.new[n], s.before_new[n] = nil, nil
end

-- When a permit that is held ends.
local function concurrency_stop(s, member)
  local stop = tonumber(call('ZSCORE', s.key, member) or nil)
  return stop and (stop > now or doubted) and stop or nil
end

local function concurrency_remove(s, member, weight)
  if not concurrency_stop(s, member) then
    return 0
  end
  call('ZREM', s.key, member)
  s.total = s.total - weight
  s.dirty = true
  if s.total > s.dead then
    s.newest = tonumber(call('ZRANGE', s.key, -1, -1, 'WITHSCORES')[2])
  end
  return weight
end

-- Without a name any nameless one of the same end and weight will do: they are alike.
local function concurrency_give(s, l, cost, stamp, name)
  if name then
    return concurrency_remove(s, permit_member(name, cost), cost)
  end
  local stop = format('%d', stamp + l[2])
  local at_stop = call('ZRANGEBYSCORE', s.key, stop, stop)
  for i = 1, #at_stop do
    if sub(at_stop[i], 1, 1) == '~' and log_weight(at_stop[i]) == cost then
      return concurrency_remove(s, at_stop[i], cost)
    end
  end
  return 0
end

local function concurrency_renew(s, l, name, weight)
  local member = permit_member(name, weight)
  local stop = concurrency_stop(s, member)
  if not stop then
    return 0
  end
  stop = now + l[2]
  call('ZADD', s.key, format('%d', stop), member)
  s.newest = tonumber(call('ZRANGE', s.key, -1, -1, 'WITHSCORES')[2])
  s.dirty = true
  return 1
end

local function concurrency_save(key, s)
  log_begin(s, key)
  for i = 1, #s.new do
    local name, stop, weight = unpack(s.new[i])
    while call('ZADD', key, 'NX', format('%d', stop), name) == 0 do
      if sub(name, 1, 1) ~= '~' then -- it was held already
        s.added = s.added - weight
        break
      end
      name = '~' .. name
    end
  end
  s.new, s.before_new = {}, {}
  log_save_total(s, key)
end

algorithms[5] = {
  load = concurrency_load,
  wait = window_wait,
  take = concurrency_take,
  untake = concurrency_untake,
  give = concurrency_give,
  holds = log_used,
  left = log_left,
  save = concurrency_save,
  renew = concurrency_renew,
}
end
