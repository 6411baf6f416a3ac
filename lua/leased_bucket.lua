-- Token bucket with leases outstanding: tokens that were taken for an agent to spend by itself until the lease's end.
--
-- Why atomic: what is outstanding caps the refill; both change in one step, or tokens are minted.
--
-- A bucket's debt is what is missing to full, what is outstanding included. So it never falls below that: tokens and
-- outstanding together never exceed the burst (docs/leases.md has the proof).
--
-- State    'L', '>I7I7': debt, a multiple of the limit's scale, and the instant of which it is; of each lease its id
--          (8 bytes), '>I4I7': amount and end, in order of their ends. Once none is outstanding the key holds
--          token_bucket.lua's integer again.
-- In doubt the state stands still: neither refilled, nor is a lease dropped, which the refill is still to see. What is taken
--          then is kept as a lease of its own (id 0) that was spent at once and ends with the last take: the next refill
--          goes up to there without it, so that the time before a take never fills what that took.
-- Refill   piecewise: up to each lease's end no further than what was outstanding then; only afterwards that lease is
--          dropped. Refilled in one go, the time before its end would fill what it left.
-- Limit    of token_bucket.lua. Lowered below what is outstanding: no tokens until enough has ended. Cap 0: the state is left
--          alone, so that nothing comes back.
-- Expires  60 s after it is full again, rounded up to a second
-- Twin     lib/core/leased_bucket.c
local LEASE_BYTES, LEASES_MAX = 19, 32
local DOUBTED = string.rep('\0', 8)

-- The debt after a refill between two instants of which nothing ended.
local function leased_refill(l, debt, outstanding, from, to)
  debt = debt - bucket_credit(l, from, to)
  return debt > outstanding and debt or outstanding
end

-- Drops what has ended, refilling up to each end and then to now.
local function leased_advance(s, l)
  local live = {}
  for i = 1, #s.leases do
    local lease = s.leases[i]
    if lease.stop <= now or lease.id == DOUBTED then
      local stop = lease.stop < now and lease.stop or now
      if stop > s.time then
        s.debt, s.time = leased_refill(l, s.debt, s.outstanding, s.time, stop), stop
      end
      s.outstanding = s.outstanding - lease.amount
    else
      live[#live + 1] = lease
    end
  end
  if s.time < now then
    s.debt, s.time = leased_refill(l, s.debt, s.outstanding, s.time, now), now
  end
  s.leases = live
end

-- Without a lease left it is an ordinary bucket. Should the clock have gone back, that begins to refill at a whole tenth.
local function leased_settle(s)
  if #s.leases == 0 then
    s.leases = nil
    if s.time > now and s.debt > 0 then
      s.ahead = round_up(s.time, 100000) - tenth
    end
  end
end

-- The limit was lowered: what is beyond it, and not outstanding, is forgotten, now.
local function leased_cap(s, l)
  if s.debt > s.outstanding and s.debt > bucket_most(l) then
    s.debt, s.changed = s.outstanding > l[1] and s.outstanding or l[1], true
  end
end

function leased.load(text, l)
  local n = text and sub(text, 1, 1) == 'L' and (#text - 15) / LEASE_BYTES or -1
  if n < 0 or n % 1 > 0 or l[1] == 0 then
    return nil
  end
  local s, next_at = {outstanding = 0, leases = {}}
  s.debt, s.time, next_at = unpack_fields('>I7I7', text, 2)
  for i = 1, n do
    local lease = {}
    lease.id, lease.amount, lease.stop, next_at = unpack_fields('>c8I4I7', text, next_at)
    lease.amount = lease.amount * 1000000
    s.outstanding = s.outstanding + lease.amount
    s.leases[i] = lease
  end
  if doubted then
    return s
  end
  leased_advance(s, l)
  leased_settle(s)
  leased_cap(s, l)
  s.changed = s.changed or not s.leases -- so that the next plain batch finds an integer
  return s
end

-- µs from now until `lack` more has been refilled, should no lease be returned before its end.
function leased.time(s, l, lack)
  local p, q, debt, outstanding = l[2], l[3], s.debt, s.outstanding
  local goal, from = debt - lack, s.time > now and s.time or now
  for i = 1, #s.leases do
    local lease = s.leases[i]
    if lease.stop > from then
      local us = round_up(debt - goal, p) * q - from % q
      if goal >= outstanding and us <= lease.stop - from then
        return us + from - now
      end
      debt, from = leased_refill(l, debt, outstanding, from, lease.stop), lease.stop
    end
    outstanding = outstanding - lease.amount
  end
  local us = round_up(debt - goal, p) * q - from % q + (from - now)
  return us < forever and us or forever
end

function leased.save(key, s, l)
  local fields = {'L', pack_fields('>I7I7', round_up(s.debt, l[4]) * l[4], s.time)}
  for i = 1, #s.leases do
    local lease = s.leases[i]
    fields[i + 2] = lease.id .. pack_fields('>I4I7', lease.amount / 1000000, lease.stop)
  end
  call('SET', key, table.concat(fields), 'PXAT', expiry_text(now + leased.time(s, l, s.debt)))
end

-- The place of the lease `id`.
local function lease_find(leases, id)
  for i = 1, #leases do
    if leases[i].id == id then
      return i
    end
  end
end

-- Adds a lease behind those that end no later.
local function lease_insert(leases, id, amount, stop)
  local at = #leases + 1
  while at > 1 and leases[at - 1].stop > stop do
    at = at - 1
  end
  table.insert(leases, at, {id = id, amount = amount, stop = stop})
end

-- A state of token_bucket.lua in doubt. When in its tenth of a second it was written is not known: that is refilled.
function leased.doubt(s, l, written)
  s.time = written * 100000
  s.leases = {}
  s.debt = l[1] > 0 and s.debt or 0
  if s.time <= now then
    local to = s.time + 100000 < now and s.time + 100000 or now
    s.debt, s.time = leased_refill(l, s.debt, 0, s.time, to), to
  end
  s.time = s.debt > 0 and s.time or now
  return s
end

-- What was taken in doubt.
function leased.taken(s)
  local i = s.leases and lease_find(s.leases, DOUBTED)
  return i and s.leases[i].amount or 0
end

function leased.take(s, amount)
  local i, stop = lease_find(s.leases, DOUBTED), now
  s.debt, s.outstanding = s.debt + amount, s.outstanding + amount
  if i then
    local before = table.remove(s.leases, i)
    amount, stop = amount + before.amount, before.stop > now and before.stop or now
  end
  lease_insert(s.leases, DOUBTED, amount, stop)
end

-- Undoes up to `amount` of it; returns how much.
function leased.untake(s, amount)
  local i = lease_find(s.leases, DOUBTED)
  if not i then
    return 0
  end
  local lease = s.leases[i]
  amount = amount < lease.amount and amount or lease.amount
  s.debt, s.outstanding, lease.amount = s.debt - amount, s.outstanding - amount, lease.amount - amount
  if lease.amount == 0 then
    table.remove(s.leases, i)
  end
  return amount
end

algorithms[0].room = function(s, l)
  local left = l[1] - s.debt
  return left > 0 and (left - left % 1000000) / 1000000 or 0
end

algorithms[0].leasable = function(s, l, id)
  return not s.leases or (#s.leases < LEASES_MAX and not lease_find(s.leases, id))
end

algorithms[0].lease = function(s, l, n, id, stop)
  if not s.leases then
    s.leases, s.time, s.ahead = {}, s.ahead and (tenth + s.ahead) * 100000 or now, nil
  end
  lease_insert(s.leases, id, n * 1000000, stop)
  s.debt, s.outstanding = s.debt + n * 1000000, s.outstanding + n * 1000000
end

algorithms[0].unlease = function(s, l, id, back)
  local i = s.leases and not doubted and lease_find(s.leases, id)
  if not i then
    return nil
  end
  local amount = table.remove(s.leases, i).amount
  back = back * 1000000 < amount and back * 1000000 or amount
  s.debt, s.outstanding = s.debt - back, s.outstanding - amount
  leased_settle(s)
  leased_cap(s, l)
  return back / 1000000
end
