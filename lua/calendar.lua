-- Calendar window: at most N in each day, week or month of a time zone.
--
-- Why atomic: read, begin a new window if its time has come, add, write back.
--
-- The agent knows time zones and sends four edges around now; Redis's clock picks the window. When the clock is outside of
-- all three, decide.lua answers EDGES and nothing is taken.
--
-- State    '>I7I5': start of the window (µs), what was taken in it; then of each lease that is outstanding its id (8 bytes),
--          '>I4I7': amount and end. A start later than now's window (the clock went back) still counts.
-- In doubt what was taken in the window before goes on counting beside what is taken in the new one, at the end of the state
--          as '>I5', until somebody sees the new one without doubt.
-- Lease    counted as taken from the start; lies within the window; only a return gives back what it left.
-- Limit    {N, e0, e1, e2, e3}: ascending edges, µs
-- Expires  60 s after the window's end
-- Twin     lib/core/calendar.c
do -- the main function may have 200 locals

-- The last edge that is not after `time`, and the next.
local function calendar_window(l, time)
  for i = 4, 3, -1 do
    if time >= l[i] then
      return l[i], l[i + 1]
    end
  end
  return l[2], l[3]
end

-- Those that have not ended, and what is outstanding of them.
local function calendar_leases(text)
  local leases, outstanding = {}, 0
  for at_byte = 13, #text - 18, LEASE_BYTES do
    local id, amount, stop = unpack_fields('>c8I4I7', text, at_byte)
    if stop > now then
      lease_insert(leases, id, amount, stop)
      outstanding = outstanding + amount
    end
  end
  return leases, outstanding
end

local function calendar_load(key, text, l)
  local start, stop = calendar_window(l, now)
  local before = 0
  local rest = text and #text >= 12 and (#text - 12) % LEASE_BYTES
  if rest == 0 or rest == 5 then
    local was, used = unpack_fields('>I7I5', text)
    if rest == 5 and (doubted or was > start) then
      before = unpack_fields('>I5', text, #text - 4)
    end
    if was >= start then
      local leases, outstanding = calendar_leases(text)
      stop = l[5]
      for i = 3, 4 do
        if l[i] > was then
          stop = l[i]
          break
        end
      end
      return {start = was, stop = stop, used = used, before = before, leases = leases, outstanding = outstanding}
    end
    before = doubted and before + used or 0
  end
  return {start = start, stop = stop, used = 0, before = before, leases = {}, outstanding = 0}
end

local function calendar_wait(s, l, cost)
  if s.used + s.before + cost <= l[1] then
    return 0
  end
  return cost > l[1] and -1 or s.before > 0 and later(0) or s.stop - now
end

local function calendar_give(s, l, cost, stamp)
  if stamp < s.start then
    return 0
  end
  local most = s.used - s.outstanding
  local given = cost < most and cost or most
  s.used = s.used - given
  return given
end

local function calendar_left(s, l)
  local used = s.used + s.before
  local left = l[1] - used
  return left > 0 and left or 0, l[1] == 0 and -1 or used > 0 and s.stop - now or 0, s.stop - now
end

local function calendar_save(key, s, l)
  if l.quota then
    quota.note_taken(l, s.used + s.before, s.start, s.stop)
  end
  if s.used + s.before == 0 then
    return call('DEL', key)
  end
  local text = pack_fields('>I7I5', s.start, s.used)
  for i = 1, #s.leases do
    local lease = s.leases[i]
    text = text .. lease.id .. pack_fields('>I4I7', lease.amount, lease.stop)
  end
  if s.before > 0 then
    text = text .. pack_fields('>I5', s.before)
  end
  call('SET', key, text, 'PXAT', expiry_text(s.stop))
end

-- A lease that began before the window (the clock went back) or outlived it would be spent in another.
local function calendar_leasable(s, l, id, stop)
  return now >= s.start and stop <= s.stop and #s.leases < LEASES_MAX and not lease_find(s.leases, id)
end

local function calendar_lease(s, l, n, id, stop)
  lease_insert(s.leases, id, n, stop)
  s.used, s.outstanding = s.used + n, s.outstanding + n
end

local function calendar_unlease(s, l, id, back)
  local i = lease_find(s.leases, id)
  if not i then
    return nil
  end
  local amount = table.remove(s.leases, i).amount
  back = back < amount and back or amount
  s.used, s.outstanding = s.used - back, s.outstanding - amount
  return back
end

algorithms[4] = {
  load = calendar_load,
  wait = calendar_wait,
  take = function(s, l, cost) s.used = s.used + cost end,
  untake = function(s, l, cost) s.used = s.used - cost end,
  give = calendar_give,
  holds = function(s) return s.used - s.outstanding end,
  left = calendar_left,
  save = calendar_save,
  room = function(s, l) return l[1] - s.used - s.before end,
  leasable = calendar_leasable,
  lease = calendar_lease,
  unlease = calendar_unlease,
}
end
