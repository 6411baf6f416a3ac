-- Turns: who waits for a limit, at which agent's loop, and whose turn it is.
--
-- Why atomic: a permit goes to the one whose turn it is, whichever loop asks, and to no newcomer before him.
--
-- A loop that has callers waiting for the limit has one ticket: that of the caller whom it would serve next. A flow is a key
-- that waits. Tickets of one flow are served in the order in which their callers came, at whichever loop; flows by virtual
-- finish times (self-clocked fair queueing, Golestani 1994), with one virtual time for all loops. Who has no ticket is
-- refused while there is one. A ticket says when its holder asks again (`due`), and lapses GRACE later: its agent is gone.
-- A holder may go before others, if what is left is enough for those whom he overtakes, and none of their loops is
-- `passed` by more than what is refilled in 10 ms beyond what it was granted itself: else a
-- fast limit, whose permits come faster than loops can take turns, would lose some. And where those before him are LATE and the
-- limit is full, so that what comes in would be lost. Where the limit is divided by weight
-- (shares.lua) there are turns only within a child: one ticket a loop and child.
--
-- And how many callers of each key wait at each loop, at the last limit of that key, so that a queue is full for all.
--
-- State    in front of the state's own text, behind a hold; of an algorithm with a sorted set, where its hold is: 'Q', '>I2' length;
--          virtual time 'd', numbers of tickets and of passed loops 'I1I1'; of each ticket 'dc8ddddd': loop, flow, arrival, due, virtual
--          start, size, cost; of each passed loop 'dd': loop, by how much; of each queue 'dc8I4d': loop, flow, callers, until when they count. A key for which nobody waits has
--          none of it. No other state begins with 'Q'.
-- Claim    (a check's `turn`) {loop, flow, arrival, start, size, n, most, left, retry, joins, behind}: who asks, of the
--          loop's n callers in that queue, which is full with `most`; start -1: new to the line
-- Expires  as the state; 60 s after the last queue at the earliest
-- Twin     lib/core/turns.c
local turn -- these functions, once a check needs them

-- The turns in front of a text, and the text behind them; nil for what is not there, or is none.
local function turn_split(text)
  if not text or sub(text, 1, 1) ~= 'Q' or #text < 13 then
    return nil, text
  end
  local length = unpack_fields('>I2', text, 2)
  local queues = length - 10 - 56 * string.byte(text, 12) - 16 * string.byte(text, 13)
  if length + 3 > #text or queues < 0 or queues % 28 > 0 then
    return nil, text
  end
  local rest = sub(text, length + 4)
  return sub(text, 4, length + 3), rest ~= '' and rest or nil
end

local function turn_functions()
  local functions = {}
  local TICKETS_MAX, QUEUES_MAX = 64, 64
  local GRACE, LATE, DUE_MAX, SOON = 250000, 100000, 1000000, 2000
  local KEPT = 3500000 -- of a queue since its loop last said so: it does each second
  local TIME_MAX = 4503599627370496 -- 2^52, virtual

  function functions.load(text)
    local q = {now = 0, tickets = {}, queues = {}, passed = {}, is_new = not text}
    if not text then
      return q
    end
    local n, n_passed, from
    q.now, n, n_passed, from = unpack_fields('<dBB', text)
    for _ = 1, n do
      local t = {}
      t.loop, t.flow, t.arrival, t.due, t.start, t.size, t.cost, from = unpack_fields('<dc8ddddd', text, from)
      if now < t.due + GRACE and t.due <= now + DUE_MAX then -- else its holder is gone, or the clock went back
        q.tickets[#q.tickets + 1] = t
      end
    end
    for i = 1, n_passed do
      local e = {}
      e.loop, e.by, from = unpack_fields('<dd', text, from)
      q.passed[i] = e
    end
    while from <= #text do
      local e = {}
      e.loop, e.flow, e.n, e.stop, from = unpack_fields('<dc8I4d', text, from)
      if now < e.stop and e.stop <= now + KEPT then -- else its agent is gone, or the clock went back
        q.queues[#q.queues + 1] = e
      end
    end
    return q
  end

  function functions.is_empty(q)
    return #q.tickets == 0 and #q.queues == 0
  end

  -- The bytes to be kept, and until when they say something.
  function functions.text(q)
    local out, stop = {pack_fields('<dBB', q.now, #q.tickets, #q.passed)}, now
    for i = 1, #q.tickets do
      local t = q.tickets[i]
      out[#out + 1] = pack_fields('<dc8ddddd', t.loop, t.flow, t.arrival, t.due, t.start, t.size, t.cost)
    end
    for i = 1, #q.passed do
      out[#out + 1] = pack_fields('<dd', q.passed[i].loop, q.passed[i].by)
    end
    for i = 1, #q.queues do
      local e = q.queues[i]
      out[#out + 1] = pack_fields('<dc8I4d', e.loop, e.flow, e.n, e.stop)
      stop = e.stop > stop and e.stop or stop
    end
    local text = table.concat(out)
    return 'Q' .. pack_fields('>I2', #text) .. text, stop
  end

  local function came_before(a, b)
    if a.arrival ~= b.arrival then
      return a.arrival < b.arrival
    end
    return a.loop < b.loop
  end

  -- Sorts them as they are served, and says of each when it is, in virtual time.
  local function order(tickets)
    local reached = {}
    table.sort(tickets, came_before)
    for i = 1, #tickets do
      local t = tickets[i]
      t.finish = (reached[t.flow] or t.start) + t.size
      reached[t.flow] = t.finish
    end
    table.sort(tickets, function(a, b)
      if a.finish ~= b.finish then
        return a.finish < b.finish
      end
      return came_before(a, b)
    end)
  end

  local function flow_of(c)
    return c.shares and c.child or c.turn.flow
  end

  -- Where the loop's ticket is; nil: it has none.
  local function place_of(q, c)
    for i = 1, #q.tickets do
      local t = q.tickets[i]
      if t.loop == c.turn.loop and (not c.shares or t.flow == c.child) then
        return i
      end
    end
  end

  local function is_of(t, c)
    return t.flow == flow_of(c) and t.arrival == c.turn.arrival
  end

  -- The virtual start of a flow: as its tickets have it, else as its loop remembers it: of one that waits all the time it is
  -- never later than now, nor longer ago than its head is large.
  local function start_of(q, c, mine)
    if mine and is_of(mine, c) then
      return mine.start
    end
    for i = 1, #q.tickets do
      if q.tickets[i] ~= mine and q.tickets[i].flow == flow_of(c) then
        return q.tickets[i].start
      end
    end
    local start, oldest = c.turn.start, q.now - c.turn.size
    if q.is_new and start > q.now then
      q.now = start
    end
    if start < 0 or start > q.now then
      return q.now
    end
    return start > oldest and start or oldest
  end

  -- What is asked for by those whose turn comes before the check's: all, if it has no claim.
  function functions.ahead(q, c)
    local claim, others, ahead = c.turn, {}, 0
    local place = claim and place_of(q, c)
    local mine = place and q.tickets[place]
    for i = 1, #q.tickets do
      local t = q.tickets[i]
      if (t ~= mine or claim.behind) and (not c.shares or t.flow == c.child) then
        others[#others + 1] = t
        ahead = ahead + t.cost
      end
    end
    if not claim then
      return ahead
    end
    c.ticket = {loop = claim.loop, flow = flow_of(c), arrival = claim.arrival, start = start_of(q, c, mine),
      size = claim.size, cost = c.cost}
    if claim.behind then
      return ahead
    end
    others[#others + 1], ahead, c.all_late, c.before = c.ticket, 0, true, {}
    order(others)
    for i = 1, #others do
      local t = others[i]
      if t == c.ticket then
        return ahead
      end
      ahead, c.all_late, c.before[i] = ahead + t.cost, c.all_late and now > t.due + LATE, t
    end
  end

  -- Where its loop is to see the flow of a refused check: behind the callers of it that came before, at other loops.
  function functions.start(ticket)
    local start = (ticket.finish or ticket.start + ticket.size) - ticket.size
    return start > 0 and start or 0
  end

  -- What a limit gives in 10 ms.
  local function soon_refilled(l)
    if l.algorithm == 0 then
      return l[2] / l[3] / 100
    elseif l.algorithm == 1 then
      return 10000 / (l[2] + l[3] / 1000000)
    elseif l.algorithm == 2 or l.algorithm == 3 then
      return l[1] * 10000 / l[2]
    end
    return 0
  end

  local function passed_of(q, loop)
    for i = 1, #q.passed do
      if q.passed[i].loop == loop then
        return q.passed[i].by, i
      end
    end
    return 0, #q.passed + 1
  end

  -- The loop was passed by so much more, or was granted it itself.
  local function pass(q, loop, cost)
    local by, i = passed_of(q, loop)
    by = by + cost
    if by <= 0 then
      if q.passed[i] then
        q.passed[i] = q.passed[#q.passed]
        q.passed[#q.passed] = nil
      end
    elseif i <= TICKETS_MAX then
      q.passed[i] = {loop = loop, by = by}
    end
  end

  local function may_overtake(q, c)
    local most = soon_refilled(c.limit)
    for i = 1, #c.before do
      if passed_of(q, c.before[i].loop) + c.cost > most then
        return false
      end
    end
    return true
  end

  -- µs until the check's turn can come, 0: now. `fits(n)`: µs until n are there.
  function functions.wait(q, c, fits, is_full)
    local behind = c.turn and c.turn.behind
    if c.ahead == 0 and not behind then
      return 0
    end
    local us = fits(c.ahead + c.cost)
    if us == 0 and c.turn and not behind and may_overtake(q, c) then
      c.overtakes = true
      return 0
    end
    if c.all_late and is_full() then
      return 0
    end
    c.waits_for_others = true
    return us > SOON and us or SOON
  end

  local function drop(list, i)
    list[i] = list[#list]
    list[#list] = nil
  end

  local function queue_of(q, c)
    for i = 1, #q.queues do
      if q.queues[i].loop == c.turn.loop and q.queues[i].flow == c.turn.flow then
        return i
      end
    end
  end

  local function count(q, c, n)
    local i, stop = queue_of(q, c), now + KEPT
    local e = i and q.queues[i]
    if n == 0 then
      if e then
        drop(q.queues, i)
        q.dirty = true
      end
    elseif e then
      q.dirty = q.dirty or e.n ~= n or stop > e.stop
      e.n, e.stop = n, stop
    elseif #q.queues < QUEUES_MAX then
      q.queues[#q.queues + 1], q.dirty = {loop = c.turn.loop, flow = c.turn.flow, n = n, stop = stop}, true
    end
  end

  -- The check whose queue has no place for one more; nil: there is none.
  function functions.full(checks)
    for i = 1, #checks do
      local c = checks[i]
      if c.turn and c.turn.joins and c.turn.most > 0 then
        local n, queues = c.turn.n, c.state.turns.queues
        for j = 1, #queues do
          if queues[j].flow == c.turn.flow and queues[j].loop ~= c.turn.loop then
            n = n + queues[j].n
          end
        end
        if n > c.turn.most then
          return c
        end
      end
    end
  end

  -- Virtual times stay whole doubles.
  local function rebase(q)
    if q.now > TIME_MAX then
      for i = 1, #q.tickets do
        q.tickets[i].start = q.tickets[i].start - q.now
      end
      q.now = 0
    end
  end

  -- The checks' caller has what he waited for.
  function functions.served(checks)
    for i = 1, #checks do
      local c = checks[i]
      local q, claim = c.state.turns, c.turn
      if claim then
        local place = place_of(q, c)
        if place then
          drop(q.tickets, place)
          q.dirty = true
        end
        for j = 1, c.overtakes and #c.before or 0 do
          pass(q, c.before[j].loop, c.cost)
        end
        pass(q, claim.loop, -c.cost)
        for j = 1, #q.tickets do
          if q.tickets[j].flow == c.ticket.flow then
            q.tickets[j].start = q.tickets[j].start + claim.size
          end
        end
        if not c.shares and c.ticket.finish > q.now then
          q.now, q.dirty = c.ticket.finish, true
          rebase(q)
        end
        if claim.most > 0 then
          count(q, c, claim.n - 1)
        end
      end
    end
  end

  -- The ticket of a caller who waits elsewhere, or no more.
  local function withdraw(q, c)
    local place = place_of(q, c)
    if place and is_of(q.tickets[place], c) then
      drop(q.tickets, place)
      q.dirty = true
    end
  end

  -- Whether he will have given up by then. Permits may be released any time.
  local function is_in_vain(c, us)
    return us < 0 or (us > c.turn.left and c.why == 0 and c.limit.algorithm ~= 5 and not c.waits_for_others)
  end

  -- The checks' caller waits for `at`, one of them, and asks again after `us`; at nil: behind one of his loop who does.
  function functions.refused(checks, at, us)
    for i = 1, #checks do
      local c = checks[i]
      local q, claim = c.state.turns, c.turn
      if claim and c == at and not is_in_vain(c, us) then
        local place = place_of(q, c)
        if not (place and claim.behind) and (place or #q.tickets < TICKETS_MAX) then
          c.ticket.due = now + (us < claim.retry and us or claim.retry)
          q.tickets[place or #q.tickets + 1], q.dirty = c.ticket, true
        end
      elseif claim and at then
        withdraw(q, c)
      end
      if claim and claim.most > 0 then
        count(q, c, claim.n)
      end
    end
  end

  -- The checks' caller waits no more; `n` of his queue are left.
  function functions.left(checks)
    for i = 1, #checks do
      local c = checks[i]
      if c.turn then
        withdraw(c.state.turns, c)
        if c.turn.most > 0 then
          count(c.state.turns, c, c.turn.n)
        end
      end
    end
  end

  return functions
end
