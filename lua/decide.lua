-- decide, the last piece: the operations of a batch that is not plain, one after the other.
--
-- Why atomic: an operation takes from all of its checks or from none, whatever the levels and pairs.
--
-- A key that is asked for several times in a batch is loaded once and written once, at the end: `states`. A refused
-- operation is undone in these, so it writes nothing. Layout of the program and of the reply: README.md.
-- C side: lib/core/script.c

local TAKE, PEEK, GIVE, REFUND, RELEASE, LEASE, UNLEASE, FEEDBACK, CHARGE = 1, 2, 3, 4, 5, 7, 8, 9, 10 -- 6: RENEW
local LEAVE, MOVE_OUT, MOVE_IN, SHARE_READ, SHARE_REPORT = 11, 12, 13, 14, 15
local REFUSED, ALLOWED, SHADOWED, REPEATED, EDGES, UNKNOWN, NEWER, TAIL, LEASED = 0, 1, 2, 3, 4, 5, 6, 64, 128
local HELD, BREAKER_OPEN, QUEUE_FULL = 8, 16, 24 -- with REFUSED: why
local UNTOLD = 7 -- refused by a share of which no agent says that it is asked for
local states, order = {}, {}
local breakers, breaker_order = {}, {}
local shares, shares_order = {}, {}

local function flush(s)
  if s.dirty then
    algorithms[s.limit.algorithm].save(s.key, s, s.limit)
    s.dirty = false
    if s.hold or (s.turns and (s.turns.dirty or not turn.is_empty(s.turns))) then
      guards_save(s, true)
    end
  elseif s.turns and s.turns.dirty then
    guards_save(s, false)
  end
  if s.turns then
    s.turns.dirty = false
  end
end

local function turns_of(text)
  turn = turn or turn_functions()
  return turn.load(text)
end

-- The state of a key as `limit` sees it. `hold_ref`: where its hold is, if not in the key itself.
local function state_of(ref, limit, hold_ref)
  local index = ref < 2147483648 and ref or ref - 2147483648 + n_strings
  local s = states[index]
  if s and s.limit == limit then
    return s
  end
  local key = keys[index]
  local text, hold, turns, held = strings[index]
  if hold_ref then
    hold, turns, held = hold_split(strings[hold_ref] or nil)
    turns = turn_split(turns)
  end
  if s then -- the limit changed within the batch
    flush(s)
    text, hold, held = index <= n_strings and call('GET', key), s.hold, s.held
  else
    order[#order + 1] = index
  end
  if not hold_ref then
    hold, text, held = hold_split(text or nil)
    turns, text = turn_split(text)
  end
  local was = s and s.turns
  s = algorithms[limit.algorithm].load(key, text or nil, limit)
  s.key, s.limit, s.hold_key, s.text = key, limit, hold_ref and keys[hold_ref], text
  if was or turns then
    s.turns = was or turns_of(turns)
  end
  if hold and hold > now then
    s.hold, s.held = hold, held and held > now and held or nil
  elseif hold and not hold_ref and (limit.whole or limit[1]) > 0 then
    s.changed = true -- so that the next plain batch finds a plain state
  end
  states[index] = s
  return s
end

local function breaker_of(ref)
  local b = breakers[ref]
  if not b then
    b = breaker_load(strings[ref] or nil)
    b.key = keys[ref]
    breakers[ref] = b
    breaker_order[#breaker_order + 1] = b
  end
  return b
end

-- The shares of the parent that the check is of.
local function shares_of(ref, idle)
  local p = shares[ref]
  if not p then
    share = share or share_functions()
    p = share.load(strings[ref] or nil)
    p.key, p.idle = keys[ref], idle
    share.lapse(p)
    shares[ref] = p
    shares_order[#shares_order + 1] = p
  end
  return p
end

local function read_checks(n, kind)
  local checks = {}
  for i = 1, n do
    local c = {}
    local limit, budget, flags
    c.ref, limit, c.index, flags, c.cost, at = unpack_fields('<I4HHBd', program, at)
    c.limit, c.shadow = limits[limit], flags % 2
    if flags % 4 >= 2 then
      c.hold_ref, at = unpack_fields('<I4', program, at)
    end
    if flags % 8 >= 4 then
      local rule, breaker = {}
      breaker, rule.failures, rule.of, rule.trials, rule.open, at = unpack_fields('<I4BBBd', program, at)
      c.breaker, c.rule, c.newer = breaker_of(breaker), rule, is_newer(strings[breaker])
    end
    if flags % 16 >= 8 then
      adaptive = adaptive or adaptive_functions()
      adaptive.read(c)
      checks.adapt = true
    end
    if flags % 32 >= 16 then
      local ref, idle
      ref, c.child, c.weight, c.most, idle, at = unpack_fields('<I4c8ddd', program, at)
      c.shares, c.newer = shares_of(ref, idle), c.newer or is_newer(strings[ref])
    end
    if flags % 64 >= 32 then
      local claim, how = {}
      claim.loop, claim.flow, claim.arrival, claim.start, claim.size, claim.n, claim.most, claim.left, claim.retry, how, at =
        unpack_fields('<dc8dddI4I4ddB', program, at)
      claim.joins, claim.behind = how % 2 == 1, how >= 2
      c.turn, checks.claimed = claim, true
    end
    if flags % 128 >= 64 then
      c.ledger, at = unpack_fields('<I4', program, at)
    end
    if flags >= 128 then
      local number
      number, at = unpack_fields('<H', program, at)
      c.quota = quota.of(number)
      c.limit = quota.limit(c.quota, c.limit)
    end
    if kind == REFUND then
      c.budget_ref, budget, at = unpack_fields('<I4H', program, at)
      c.budget_limit = limits[budget]
    end
    checks[i] = c
  end
  return checks
end

-- The i-th of what is left of a plain batch.
local function read_plain(i)
  local limit, ref, cost = unpack(plain_ops[i])
  return {kind = TAKE, checks = {{ref = ref, limit = limits[limit], index = 0, shadow = 0, cost = cost}}}
end

local function read_operation()
  local op, flags, n = {}
  op.kind, flags, n, op.stamp, op.amount, at = unpack_fields('<BBHdd', program, at)
  op.chained = flags % 2 >= 1
  if flags % 4 >= 2 then
    op.id, op.echo, at = unpack_fields('<I4I4c0', program, at)
  end
  if flags % 8 >= 4 then
    op.receipt, op.receipt_ms, at = unpack_fields('<I4d', program, at)
  end
  if flags % 16 >= 8 then
    op.permit, at = unpack_fields('<I2c0', program, at)
  end
  if op.kind == LEASE then
    op.lease, op.ttl, op.hold, op.sharers, at = unpack_fields('<c8ddd', program, at)
  elseif op.kind == UNLEASE then
    op.lease, at = unpack_fields('<c8', program, at)
  elseif op.kind == FEEDBACK then
    op.ok, op.congested, op.hold, op.latency, at = unpack_fields('<BBdd', program, at)
  elseif op.kind == SHARE_READ then
    local g = {}
    g.seq, g.clock, g.t0, g.duration, g.whole, g.parts, g.floors, g.epoch, g.c0, at =
      unpack_fields('<ddddI4I4I4c8d', program, at)
    op.grant = g
  elseif op.kind == SHARE_REPORT then
    op.agent, op.demand, op.keep, at = unpack_fields('<c8dd', program, at)
  end
  op.checks = read_checks(n, op.kind)
  return op
end

-- Of a check whose key, or what goes with it, a later version of this script has written.
local function newer(checks)
  for i = 1, #checks do
    local c = checks[i]
    if is_newer(strings[c.ref]) or is_newer(strings[c.hold_ref]) or c.newer then
      return c.index
    end
  end
end

local function key_of(ref)
  return keys[ref - 2147483648 + n_strings]
end

-- A calendar whose edges don't cover this instant.
local function outside_edges(op)
  for i = 1, #op.checks do
    local l = op.checks[i].limit
    if l.algorithm == 4 and (now < l[2] or now >= l[5]) then
      return op.checks[i].index
    end
  end
end

local function record(status, index, left, more, reset)
  return pack_fields('<BHddd', status, index, left, more, reset)
end

local function with_tail(answer, status, amount, first_status, echo)
  return pack_fields('<B', status + TAIL) .. sub(answer, 2) .. pack_fields('<dBI4', amount, first_status, #echo) .. echo
end

local function untake(checks)
  for i = #checks, 1, -1 do
    local c = checks[i]
    if c.taken then
      algorithms[c.limit.algorithm].untake(c.state, c.limit, c.cost)
      if c.shares then
        share.untake(c.shares, c.place, c.cost * 1000000, c.own)
      end
      c.taken = false
    end
  end
end

-- µs until the check's child may take of its parent what it costs. Who only looks leaves no trace.
local function share_wait(c, looks)
  local s, l = c.state, c.limit
  if c.quota then
    c.shares = looks and share.copy(c.shares) or c.shares
    c.place = share.ask(c.shares, c.child, c.weight, c.most, s.tokens, s.piece.cap)
    local lack = share.lack(c.shares, c.place, c.cost * 1000000)
    local us = lack > 0 and algorithms[6].time_until(s, l, s.tokens + lack) or 0
    return quota.wait(c.quota, us)
  end
  local tokens = l[1] - s.debt
  local beyond = tokens < 0 and -tokens or 0 -- the clock went back
  tokens = tokens + beyond
  if looks then
    c.shares = share.copy(c.shares)
  end
  c.place = share.ask(c.shares, c.child, c.weight, c.most, tokens, l[1])
  local lack = share.lack(c.shares, c.place, c.cost * 1000000)
  return lack > 0 and later(bucket_time(s, l, beyond + lack)) or 0
end

-- µs until it can be the turn of the check's caller, 0: it is.
local function turn_wait(c)
  local s, l = c.state, c.limit
  return turn.wait(s.turns, c, function(n) -- µs until n have come, one after the other
    if l.algorithm == 0 then
      local lack = s.debt + n * 1000000 - l[1]
      return lack > 0 and later(bucket_time(s, l, lack)) or 0
    end
    local most = l.whole or l[1]
    local us = algorithms[l.algorithm].wait(s, l, n < most and n or most)
    return l.whole and quota.wait(l.quota, us) or us
  end, function()
    local _, _, reset = algorithms[l.algorithm].left(s, l)
    return reset == 0
  end)
end

-- µs until the check has room, 0: now, -1: never; and, if something else than the limit refuses it, what.
local function wait_of(c, looks)
  local s = c.state
  local wait = algorithms[c.limit.algorithm].wait(s, c.limit, c.cost)
  if c.quota and c.cost <= c.limit.whole then
    wait = quota.wait(c.quota, wait)
  end
  c.ahead = s.turns and not looks and turn.ahead(s.turns, c)
  if wait < 0 then
    return wait, 0
  end
  if s.hold then
    return s.hold < FENCE and s.hold - now or FENCED, HELD
  end
  local open = c.breaker and breaker_wait(c.breaker, c.rule) or 0
  if open > 0 then
    return open, BREAKER_OPEN
  end
  local part = c.shares and share_wait(c, looks) or 0
  wait = part > wait and part or wait
  if c.ahead then
    local us = turn_wait(c)
    wait = us > wait and us or wait
  end
  return wait, 0
end

-- Takes from every check that has room, in memory. Returns the check that refuses for the longest, and the first shadow
-- check without room.
local function try(op, n_op)
  local refuses, shadowed
  for i = 1, #op.checks do
    local c = op.checks[i]
    local algorithm = algorithms[c.limit.algorithm]
    local s = state_of(c.ref, c.limit, c.hold_ref)
    c.state = s
    if c.turn and not s.turns then
      s.turns = turns_of()
    end
    c.wait, c.why = wait_of(c, op.kind == PEEK)
    if c.wait == 0 then
      algorithm.take(s, c.limit, c.cost, op.permit or format('~%d.%d.%d.%d', stamp_high, stamp, n_op, i))
      c.own = c.shares and share.take(c.shares, c.place, c.cost * 1000000)
      c.taken = true
    elseif c.shadow == 1 then
      shadowed = shadowed or c
    elseif not refuses or c.wait < 0 or (refuses.wait >= 0 and c.wait > refuses.wait) then
      refuses = (refuses and refuses.wait < 0) and refuses or c
    end
  end
  return refuses, shadowed
end

-- Remaining, µs until one more is there (0: full), µs until full; of a share no more than is there for its child.
local function left_of(c)
  local left, more, reset = algorithms[c.limit.algorithm].left(c.state, c.limit)
  if more < 0 and c.quota and c.limit.whole > 0 then
    more = quota.wait(c.quota, more)
  end
  if c.place then
    local room = share.room(c.shares, c.place)
    room = (room - room % 1000000) / 1000000
    left = room < left and room or left
  end
  return left, more, reset
end

-- The check with the least remaining speaks for the operation.
local function least(checks)
  local best, best_left, best_more, best_reset
  for i = 1, #checks do
    local c = checks[i]
    local left, more, reset = left_of(c)
    if not best or left < best_left then
      best, best_left, best_more, best_reset = c, left, more, reset
    end
  end
  return best, best_left, best_more, best_reset
end

local function digest(checks)
  local text = {}
  for i = 1, #checks do
    local s = states[checks[i].ref < 2147483648 and checks[i].ref or checks[i].ref - 2147483648 + n_strings]
    text[i] = format('%d:%s%d;', #s.key, s.key, checks[i].cost)
  end
  return redis.sha1hex(table.concat(text))
end

local function remember(op, answer, status)
  if op.id then
    call('SET', key_of(op.id), answer .. op.echo, 'PX', 60000)
  end
  if op.receipt then
    call('SET', key_of(op.receipt), pack_fields('<dd', 0, now) .. digest(op.checks), 'PX', format('%d', op.receipt_ms))
  end
end

-- A state that means something else under a changed limit is written even when nothing is taken from it.
local function mark(checks, taken)
  for i = 1, #checks do
    local c = checks[i]
    if (taken and c.taken) or c.state.changed then
      c.state.dirty = true
    end
    if taken and c.taken and c.breaker then
      breaker_take(c.breaker, c.rule)
    end
    if taken and c.taken and c.shares then
      c.shares.dirty = true
    end
  end
end

-- Adds `amount`, or each check's cost, to the ledgers of the checks that have one. They last 8 days after the last time.
local function book(checks, sign, amount)
  for i = 1, #checks do
    local c = checks[i]
    if c.ledger then
      local key = key_of(c.ledger)
      call('INCRBY', key, format('%d', sign * (amount or c.cost)))
      call('PEXPIRE', key, 691200000)
    end
  end
end

local function refused(op, c, wait)
  local left, _, reset = left_of(c)
  local is_untold = c.quota and c.why == 0 and wait > 0 and op.kind ~= PEEK and not quota.is_told(c.quota)
  return record(is_untold and UNTOLD or REFUSED + c.why, c.index, c.why > 0 and 0 or left, wait, reset), true, wait
end

-- The same of one who waits: his ticket goes where he was refused, and he is told where in the line that is. Behind one of
-- his loop that was refused with him he has none.
local function refused_in_line(op, refuses, wait, chained)
  local c = turn.full(op.checks)
  if c then
    c.why = QUEUE_FULL
    return refused(op, c, wait)
  end
  c = refuses or least(op.checks)
  c.why = c.why or 0
  turn.refused(op.checks, not chained and refuses or nil, wait)
  local answer = refused(op, c, wait)
  if not chained and c.turn then
    local start = turn.start(c.ticket)
    answer = with_tail(answer, string.byte(answer) + LEASED, start, c.waits_for_others and 1 or 0, '') ..
      pack_fields('<d', c.state.turns.now)
  end
  return answer, true, wait
end

-- A lease that is refused because callers wait, at another agent: its own holds what they wait for.
local function refused_for_others(op, answer)
  for i = 1, #op.checks do
    if (op.checks[i].ahead or 0) > 0 then
      return with_tail(answer, string.byte(answer) + LEASED, 0, 1, '') .. pack_fields('<d', 0)
    end
  end
  return answer
end

-- What a lease may take of each check beyond the cost that was taken: no more than an equal part of what was there.
local function lease_amount(op)
  local least_room, cost = forever, op.checks[1].cost
  for i = 1, #op.checks do
    local c = op.checks[i]
    local room = algorithms[c.limit.algorithm].room(c.state, c.limit)
    least_room = room < least_room and room or least_room
  end
  local n = least_room + cost
  n = (n - n % op.sharers) / op.sharers
  n = n < op.amount and n or op.amount
  return n > cost and n or cost
end

local function leasable(op)
  if op.hold == 0 or doubted then -- its checks don't take alike: script.c
    return false
  end
  for i = 1, #op.checks do
    local c = op.checks[i]
    if c.quota and now + op.hold > quota.lease_end(c.quota) then
      return false
    end
    if not algorithms[c.limit.algorithm].leasable(c.state, c.limit, op.lease, now + op.hold) then
      return false
    end
  end
  return true
end

-- Makes a lease of what was taken. Returns its amount and for how long its holder has it: 0, it stays an ordinary take.
local function lease(op)
  if not leasable(op) then
    return op.checks[1].cost, 0
  end
  local n = lease_amount(op)
  untake(op.checks)
  for i = 1, #op.checks do
    local c = op.checks[i]
    algorithms[c.limit.algorithm].lease(c.state, c.limit, n, op.lease, now + op.hold)
    if c.quota then
      quota.leased(c.quota, now + op.hold)
    end
    c.taken = true
  end
  return n, op.ttl
end

-- TAKE, PEEK and LEASE. Returns the record, whether it was refused, and for how long.
local function take(op, n_op, before_refused, before_wait)
  local stored = op.id and call('GET', key_of(op.id))
  if stored then
    return with_tail(sub(stored, 1, 27), REPEATED, 0, string.byte(stored), sub(stored, 28))
  end
  local refuses, shadowed = try(op, n_op)
  local chained = op.chained and before_refused
  local takes = op.kind ~= PEEK and not refuses and not chained
  local amount, lease_us
  if not takes then
    untake(op.checks)
  elseif op.kind == LEASE then
    amount, lease_us = lease(op)
  end
  if op.kind ~= PEEK then
    mark(op.checks, takes)
  end
  if takes then
    book(op.checks, 1, amount)
  end
  if op.checks.claimed and takes then
    turn.served(op.checks)
  elseif op.checks.claimed then
    local wait = refuses and refuses.wait or before_wait
    return refused_in_line(op, refuses, (chained and wait >= 0 and before_wait > wait) and before_wait or wait, chained)
  end
  if refuses then
    local wait = refuses.wait
    wait = (chained and wait >= 0 and before_wait > wait) and before_wait or wait
    local answer = refused(op, refuses, wait)
    return op.kind == LEASE and refused_for_others(op, answer) or answer, true, wait
  end
  if chained then
    local c = least(op.checks)
    c.why = 0
    return refused(op, c, before_wait)
  end
  local answer
  if shadowed then
    local left, _, reset = algorithms[shadowed.limit.algorithm].left(shadowed.state, shadowed.limit)
    answer = record(SHADOWED, shadowed.index, left, shadowed.wait, reset)
  else
    local c, left, more, reset = least(op.checks)
    answer = record(ALLOWED, c.index, left, more, reset)
  end
  if amount then
    return with_tail(answer, string.byte(answer) + LEASED, amount, 0, '') .. pack_fields('<d', lease_us)
  elseif takes then
    remember(op, answer)
  end
  return answer
end

local function load_states(checks)
  for i = 1, #checks do
    checks[i].state = state_of(checks[i].ref, checks[i].limit, checks[i].hold_ref)
  end
end

local function answer_amount(status, checks, amount)
  local c, left, more, reset = least(checks)
  if amount % 1 > 0 then -- a bucket that refilled meanwhile took the rest only
    amount = amount - amount % 1 + 1
  end
  return with_tail(record(status, c.index, left, more, reset), status, amount, 0, '')
end

local function give(c, amount, stamp, permit)
  local given = algorithms[c.limit.algorithm].give(c.state, c.limit, amount, stamp, permit)
  c.state.dirty = c.state.dirty or given > 0
  return given
end

local function give_back(op)
  local given = 0
  load_states(op.checks)
  for i = 1, #op.checks do
    local c = op.checks[i]
    local n = give(c, c.cost, op.stamp, op.permit)
    given = n > given and n or given
    if c.breaker then
      breaker_give(c.breaker, c.rule, op.stamp)
    end
  end
  if op.id then
    call('DEL', key_of(op.id))
  end
  book(op.checks, -1)
  return answer_amount(ALLOWED, op.checks, given)
end

local function unlease(op)
  local known, back = false, 0
  load_states(op.checks)
  for i = 1, #op.checks do
    local c = op.checks[i]
    local n = algorithms[c.limit.algorithm].unlease(c.state, c.limit, op.lease, op.amount)
    if n then
      known, c.state.dirty = true, true
      back = n > back and n or back
    end
  end
  book(op.checks, -1, op.amount)
  return answer_amount(known and ALLOWED or UNKNOWN, op.checks, back)
end

-- What each check may get back now: its part of the target that is not given yet; over all of them no more than the
-- tightest budget, so that levels stay in step.
local function refund_parts(checks, given, target)
  local most = forever
  for i = 1, #checks do
    local c = checks[i]
    local was = given < c.cost and given or c.cost
    c.part = (target < c.cost and target or c.cost) - was
    if c.part > 0 and c.budget_ref > 0 then
      c.budget = state_of(c.budget_ref, c.budget_limit)
      local left = algorithms[c.budget_limit.algorithm].left(c.budget, c.budget_limit)
      most = left < most and left or most
    end
  end
  return most
end

local function refund_check(c, most, stamp)
  local part = c.part < most and c.part or most
  local holds = algorithms[c.limit.algorithm].holds(c.state, c.limit)
  part = part < holds and part or holds
  if part <= 0 then
    return 0
  end
  -- A permit has one weight and goes whole or not at all.
  if c.limit.algorithm == 5 and part < c.cost then
    return 0
  end
  local given = give(c, part, stamp)
  if given % 1 > 0 then -- the rest of that unit had been refilled already
    given = given - given % 1 + 1
  end
  if given > 0 and c.budget then
    algorithms[c.budget_limit.algorithm].take(c.budget, c.budget_limit, given)
    c.budget.dirty = true
  end
  return given
end

-- The receipt: what it has given back in all, when it was taken, a digest of keys and costs. A receipt under which other
-- keys are named is none.
local function refund(op)
  load_states(op.checks)
  local key = key_of(op.receipt)
  local text = call('GET', key)
  if not text or #text ~= 56 or sub(text, 17) ~= digest(op.checks) then
    return answer_amount(UNKNOWN, op.checks, 0)
  end
  local given, stamp = unpack_fields('<dd', text)
  local target = op.amount
  if target < 0 then
    target = forever
  end
  local back = 0
  if target > given then
    local most = refund_parts(op.checks, given, target)
    for i = 1, #op.checks do
      local n = refund_check(op.checks[i], most, stamp)
      back = n > back and n or back
    end
    call('SET', key, pack_fields('<dd', target, stamp) .. sub(text, 17), 'KEEPTTL')
  end
  return answer_amount(ALLOWED, op.checks, back)
end

local function permit_operation(op)
  local done = 0
  load_states(op.checks)
  for i = 1, #op.checks do
    local c = op.checks[i]
    if c.limit.algorithm == 5 then
      if op.kind == RELEASE then
        done = give(c, c.cost, 0, op.permit) > 0 and 1 or done
      else
        -- At a home that it has left it ends as those at the next one assume.
        local stays = (c.state.hold or 0) < FENCE
        done = stays and algorithms[5].renew(c.state, c.limit, op.permit, c.cost) > 0 and 1 or done
      end
    end
  end
  return answer_amount(done == 1 and ALLOWED or UNKNOWN, op.checks, done)
end

-- Leaves no more than `most`: the server that the key stands for counts less than we do.
local function lower(c, n_op, most)
  local s, l = c.state, c.limit
  if l.algorithm == 0 then
    local debt = l[1] - most * 1000000
    if debt > s.debt and doubted then
      leased.take(s, round_up(debt - s.debt, 1000000) * 1000000)
      s.dirty = true
    elseif debt > s.debt then
      s.debt, s.dirty = debt, true
    end
    return
  end
  local left = algorithms[l.algorithm].left(s, l)
  if left > most then
    algorithms[l.algorithm].take(s, l, left - most, format('~%d.%d.%d.%d', stamp_high, stamp, n_op, 1))
    s.dirty = true
  end
end

-- What became of a request elsewhere. A limit of 0 lets nothing pass anyway, and its state is left alone.
local function feedback(op, n_op)
  local c = op.checks[1]
  local change = c.breaker and breaker_feed(c.breaker, c.rule, op.ok == 1) or SAME
  load_states(op.checks)
  local s = c.state
  local learned = c.adaptive and adaptive.learn(c, op.congested == 1, op.latency) or SAME
  if (c.limit.whole or c.limit[1]) > 0 then
    if op.amount >= 0 then
      lower(c, n_op, op.amount)
    end
    local stop = op.hold > 0 and now + op.hold or 0
    if stop > (s.hold or 0) then
      s.hold, s.dirty = stop, true
    elseif (s.hold or 0) >= FENCE and stop > (s.held or 0) then
      s.held, s.dirty = stop, true
    end
  end
  return answer_amount(ALLOWED, op.checks, change + 4 * learned)
end

-- What was admitted elsewhere, without asking here: taken as far as it is there.
local function charge(op, n_op)
  load_states(op.checks)
  for i = 1, #op.checks do
    local c = op.checks[i]
    if (c.limit.whole or c.limit[1]) > 0 then
      local left = algorithms[c.limit.algorithm].left(c.state, c.limit)
      lower(c, n_op, left > c.cost and left - c.cost or 0)
    end
  end
  book(op.checks, 1)
  return answer_amount(ALLOWED, op.checks, 0)
end

-- A caller who waited is gone.
local function leave(op)
  load_states(op.checks)
  for i = 1, #op.checks do
    local s = op.checks[i].state
    s.turns = s.turns or turns_of()
  end
  turn.left(op.checks)
  return answer_amount(ALLOWED, op.checks, 0)
end

local others = {[GIVE] = give_back, [REFUND] = refund, [UNLEASE] = unlease, [FEEDBACK] = feedback, [CHARGE] = charge,
  [LEAVE] = leave}

do -- a function has at most 200 local variables
  -- µs until no lease of the key is outstanding.
  local function leased_for(s, l)
    local last = 0
    if l.algorithm == 2 then -- its entries carry their lease's end
      last = tonumber(call('ZRANGE', s.key, -1, -1, 'WITHSCORES')[2] or 0)
    else
      for i = 1, #(s.leases or '') do
        last = s.leases[i].stop > last and s.leases[i].stop or last
      end
    end
    return last > now and last - now or 0
  end

  -- By version `stamp` of the regions the key is at home elsewhere: nothing is taken here any more. What remains is what the
  -- new home may begin with, once the amount is 0: no lease is outstanding, a hold is over, and the breaker is not open. The wait is
  -- until what is remembered by ids is over as well.
  others[MOVE_OUT] = function(op)
    load_states(op.checks)
    local c = op.checks[1]
    local s, l, fence, ids = c.state, c.limit, FENCE + op.stamp, 60000000
    if (s.hold or 0) < fence then
      if (s.hold or 0) < FENCE then
        s.held = s.hold
      end
      s.hold = fence
      if not s.dirty then
        guards_save(s, false)
      end
    else -- the key expires 60 s after FENCE_KEPT
      local kept = call('PTTL', s.hold_key or s.key) * 1000
      local rest = kept > FENCE_KEPT and kept - FENCE_KEPT or 0
      ids = kept >= 0 and rest < ids and rest or ids
    end
    local held, open = s.held and s.held - now or 0, c.breaker and c.breaker.open_until
    local left, _, reset = algorithms[l.algorithm].left(s, l)
    local wait = math.max(leased_for(s, l), held, open and open - now or 0)
    return with_tail(record(ALLOWED, c.index, left, ids, reset), ALLOWED, wait, 0, '')
  end

  -- By version `stamp` the key is at home here, and the earlier homes have left no more than `amount`; without it the question
  -- is whether it may be. Unknown: by a later version, or by other regions of the same one, it has left this home as well.
  others[MOVE_IN] = function(op, n_op)
    load_states(op.checks)
    local s = op.checks[1].state
    if (s.hold or 0) >= FENCE + op.stamp then
      return answer_amount(UNKNOWN, op.checks, 0)
    end
    if op.amount >= 0 then
      if (s.hold or 0) >= FENCE then
        s.hold, s.held, s.dirty = s.held, nil, true
        if s.hold_key then
          call('DEL', s.hold_key)
        end
      end
      lower(op.checks[1], n_op, op.amount)
    end
    return answer_amount(ALLOWED, op.checks, 0)
  end
end

others[SHARE_READ] = function(op)
  local is_new, told = quota.read(op)
  local c = op.checks[1]
  return with_tail(record(0, c.index, 0, 0, 0), is_new and ALLOWED or UNKNOWN, 0, 0, told)
end

others[SHARE_REPORT] = function(op)
  return with_tail(record(0, op.checks[1].index, 0, 0, 0), ALLOWED, 0, 0, quota.report(op))
end

if plain == 2 then
  quota, algorithms[6] = quota_functions(), shared_bucket_functions()
  quota.begin()
end
local reply, was_refused, was_wait = {plain_reply or pack_fields('<I2I6dB', stamp, stamp_high, now, doubted and 1 or 0)}, false, 0
for i = 1, n_ops do
  local op = plain_ops and read_plain(i) or read_operation()
  local later_format, edge = newer(op.checks), outside_edges(op)
  if later_format or edge then
    reply[i + 1] = later_format and record(NEWER, later_format, 0, 0, 0) or record(EDGES, edge, 0, 0, 0)
    was_refused, was_wait = true, 0
  elseif op.kind == TAKE or op.kind == PEEK or op.kind == LEASE then
    reply[i + 1], was_refused, was_wait = take(op, i, was_refused, was_wait)
  else
    was_refused = false
    reply[i + 1] = (others[op.kind] or permit_operation)(op, i)
  end
  if op.checks.adapt and not later_format then
    reply[i + 1] = adaptive.with_limit(reply[i + 1], op.checks)
  end
end
for i = 1, #order do
  flush(states[order[i]])
end
for i = 1, #breaker_order do
  if breaker_order[i].dirty then
    breaker_save(breaker_order[i])
  end
end
if adaptive then
  adaptive.save()
end
if quota then
  quota.save()
end
for i = 1, #shares_order do
  if shares_order[i].dirty then
    share.save(shares_order[i])
  end
end
return table.concat(reply)
