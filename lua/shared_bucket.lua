-- Shared bucket: a region's part of a global token bucket, whose rate and burst change in time by the plan of the region's
-- share (quota.lua).
--
-- Why atomic: tokens and what is outstanding never exceed the burst of the piece that is in force; all change in one step.
--
-- State    'S', '>I7I7I7': the clock's number, the instant, millionths of a token there then; of each lease its id (8
--          bytes), '>I4I7': amount and end, in order of their ends. Absent: full when the plan begins, and refilled since. A
--          state of another number is no more than full when the plan begins, and its leases last for the longest time
--          from there. Any other text, of a bucket in another scope: empty, now.
-- Refill   piecewise over the plan's pieces and the leases' ends, by whole quanta of each piece, the first whole one after its
--          begin. What is above the burst of the piece that begins goes: a share that grows adds room, never tokens.
-- In doubt as ever: what matters is whether Redis's clock was set, and then the share begins anew.
-- Limit    {cap, limit, per}: of the whole, cap in millionths
-- Expires  when it surely says no more than absence does: what is missing to an absent key that is never full for long grows
--          with the share no faster than e-fold in the time from empty to full, so 1 + ln(cap) times that after the last
--          lease's end, and 60 s
-- Twin     lib/core/shared_bucket.c
local function shared_bucket_functions()
  local LEASE_MAX = 16270000 -- of quota.lua

  -- The limit of a part: cap, quantum in millionths and in µs (share_of() of share_plan.c; each step is exact in a double).
  local function share_of(l, parts)
    local thousandths, per = l[2] * parts, l[3]
    local refill = thousandths * 1000
    local a, b = refill, per
    while b > 0 do
      a, b = b, a % b
    end
    local p, q = refill / a, per / a
    if q > 100 and p > 1000 then
      q = round_up(per, thousandths)
      q = q > 100 and q or 100
      local rest = thousandths * q
      p = 0
      for _ = 1, 4 do -- digit by digit
        p, rest = p * 10 + (rest - rest % per) / per, rest % per * 10
      end
    end
    if (p - p % q) / q >= 10000000000 then
      p, q = 10000000000, 1
    end
    return l[1] / 1000 * parts, p, q
  end

  -- The plan's pieces as limits.
  local function pieces_of(l)
    if not l.pieces then
      l.pieces = {}
      for i = 1, #l.quota.pieces do
        local piece = {from = l.quota.pieces[i][1]}
        piece.cap, piece.p, piece.q = share_of(l, l.quota.pieces[i][2])
        piece.first = round_up(piece.from, piece.q) * piece.q
        l.pieces[i] = piece
      end
    end
    return l.pieces
  end

  local function credit(piece, from, to, most)
    from = from > piece.first and from or piece.first
    if piece.p == 0 or to <= from then
      return 0
    end
    local q = piece.q
    local quanta = (to - to % q - from + from % q) / q
    return quanta >= round_up(most, piece.p) and most or quanta * piece.p
  end

  local function room_of(s, piece)
    return piece.cap > s.outstanding and piece.cap - s.outstanding or 0
  end

  -- Goes through all that changes until `stop`, in its order; no further than where `need` is there, if it is said, under the share
  -- of now, should it stay: returns when that is.
  local function go_on(s, l, stop, need)
    local pieces = pieces_of(l)
    local i = #pieces
    while i > 1 and pieces[i].from > s.time do
      i = i - 1
    end
    while true do
      local piece, next_piece, lease = pieces[i], not need and pieces[i + 1], s.leases[1]
      local room, to = room_of(s, piece), stop
      s.tokens = s.tokens < room and s.tokens or room
      if next_piece and next_piece.from < to then
        to = next_piece.from
      end
      if lease and lease.stop < to then
        to = lease.stop
      end
      if need and need <= room and piece.p > 0 then
        local from = s.time > piece.first and s.time or piece.first
        local at_us = s.tokens >= need and s.time or from - from % piece.q + round_up(need - s.tokens, piece.p) * piece.q
        if at_us <= to then
          return at_us
        end
      end
      s.tokens = s.tokens + credit(piece, s.time, to, room - s.tokens)
      s.time = to > s.time and to or s.time
      if lease and lease.stop <= stop and lease.stop <= s.time then
        s.outstanding = s.outstanding - table.remove(s.leases, 1).amount
      elseif next_piece and next_piece.from <= s.time then
        i = i + 1
      else
        return nil, piece
      end
    end
  end

  -- µs from now until `need` is there, should the share stay and no lease be returned before its end; -1: never.
  local function time_until(s, l, need)
    if s.tokens >= need then
      return 0
    end
    local at_us = go_on({time = s.time, tokens = s.tokens, outstanding = s.outstanding, leases = {unpack(s.leases)}}, l,
      forever, need)
    return at_us and (at_us < forever and at_us - now or forever) or -1
  end

  local function advance(s, l)
    local _, piece = go_on(s, l, l.quota.seen)
    s.piece = piece
  end

  local function load(_, text, l)
    local s = {clock = 0, time = 0, tokens = 0, outstanding = 0, leases = {}}
    local first, from, n = pieces_of(l)[1], 2, text and #text - 22 or 0
    if text and (sub(text, 1, 1) ~= 'S' or n < 0 or n % 19 > 0) then
      s.clock, s.time, s.changed = l.quota.clock, l.quota.seen, true
    elseif text then
      s.clock, s.time, s.tokens, from = unpack_fields('>I7I7I7', text, from)
      for i = 1, n / 19 do
        local lease = {}
        lease.id, lease.amount, lease.stop, from = unpack_fields('>c8I4I7', text, from)
        lease.amount = lease.amount * 1000000
        s.outstanding = s.outstanding + lease.amount
        s.leases[i] = lease
      end
    end
    if s.clock ~= l.quota.clock then
      s.tokens = (s.clock == 0 or s.tokens > first.cap) and first.cap or s.tokens
      s.clock, s.time = l.quota.clock, first.from
      for i = 1, #s.leases do
        s.leases[i].stop = first.from + LEASE_MAX
      end
    end
    advance(s, l)
    return s
  end

  local function save(key, s, l)
    if l[1] == 0 then -- nothing comes back, should it be raised
      return
    end
    if #s.leases == 0 and s.tokens == s.piece.cap then
      return call('DEL', key)
    end
    local text = {'S', pack_fields('>I7I7I7', s.clock, s.time, s.tokens)}
    local last = now
    for i = 1, #s.leases do
      local lease = s.leases[i]
      text[i + 2] = lease.id .. pack_fields('>I4I7', lease.amount / 1000000, lease.stop)
      last = lease.stop > last and lease.stop or last
    end
    local full = l[1] / 1000000 / l[2] * l[3]
    call('SET', key, table.concat(text), 'PXAT', expiry_text(last + full * (1 + math.log(l[1]))))
  end

  local function left(s, l)
    local more, reset
    local tokens = (s.tokens - s.tokens % 1000000) / 1000000
    if #s.leases == 0 and s.tokens == s.piece.cap and s.tokens > 0 then
      return tokens, 0, 0
    end
    more, reset = time_until(s, l, (tokens + 1) * 1000000), time_until(s, l, s.piece.cap)
    return tokens, more, reset > 0 and reset or 0
  end

  return {
    load = load,
    time_until = time_until,
    wait = function(s, l, cost) return time_until(s, l, cost * 1000000) end,
    take = function(s, _, cost) s.tokens = s.tokens - cost * 1000000 end,
    untake = function(s, _, cost) s.tokens = s.tokens + cost * 1000000 end,
    give = function(s, _, cost)
      local room = room_of(s, s.piece) - s.tokens
      local given = cost * 1000000 < room and cost * 1000000 or room
      s.tokens = s.tokens + given
      return given / 1000000
    end,
    holds = function(s) return round_up(room_of(s, s.piece) - s.tokens, 1000000) end,
    left = left,
    save = save,
    room = function(s) return (s.tokens - s.tokens % 1000000) / 1000000 end,
    leasable = function(s, _, id) return #s.leases < LEASES_MAX and not lease_find(s.leases, id) end,
    lease = function(s, _, n, id, stop)
      lease_insert(s.leases, id, n * 1000000, stop)
      s.tokens, s.outstanding = s.tokens - n * 1000000, s.outstanding + n * 1000000
    end,
    unlease = function(s, l, id, back)
      local i = lease_find(s.leases, id)
      if not i then
        return nil
      end
      local amount = table.remove(s.leases, i).amount
      back = back * 1000000 < amount and back * 1000000 or amount
      s.tokens, s.outstanding = s.tokens + back, s.outstanding - amount
      advance(s, l)
      return back / 1000000
    end,
  }
end
