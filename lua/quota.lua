-- Quota: the region's share of a limit that holds in all regions together, by this Redis's clock and nothing else
-- (docs/global.md). Of one policy and root; all keys under it go by it.
--
-- Why atomic: whoever reads a grant writes it once for all agents, and each decision sees the share as it is then.
--
-- State    '>I1': 2; then of the clock I7I7I4: its number, the most that it showed, and of which whole the rest are parts;
--          of the grant I7I4I7: number, parts, end; c8I7I7: epoch, c0, when it was read; of the floor I4I4I4I4I4: parts,
--          version, what it becomes, by which version, the version that is confirmed; of the promise I4I7c8I7: parts, end,
--          epoch, c0; of leases I7I7I7I4I1: when the last has ended, until when reports say number, version and whether a
--          grant is in force as before; of a calendar I7I7I4: window, its end, what its most used key did; I7: the longest
--          of other windows; I7: since when demand is told and no grant is in force.
--          Then three lists, each I1 long: pieces of the plan (I7I4: from, parts), what the most used key of a window did
--          (I7I4: until when that counts at most, parts) and what agents were asked (c8I7I4: agent, until when it counts, parts)
-- Clock    Set by more than the agent's steady clock allows, or back by more than STEP_BACK: the share begins anew
--          under the next number of the clock. Backwards by less it stands still.
-- Record   of each quota of a call: {key, loose, whole, floor, version of the floors, how long a promise binds, how long the
--          next grant may take}
-- Expires  an hour after the last that it says is over; 30 days after where it knows floors of a later version than the
--          first: an agent of the first would begin with its own
-- Twins    lib/core/region_share.c, share_plan.c

local function quota_functions()
  local functions, list, by_ref = {}, {}, {}
  local KEPT, KEPT_FLOORS, STEP_BACK = 3600000000, 2592000000000, 1000000
  local LEASE_MAX = 16270000 -- script_lease_hold_us() of the longest
  local PIECES_MAX, PIECES_AHEAD, AGENTS_MAX, USED_MAX, DEMAND_MAX = 16, 3, 100, 24, 2000000000
  local NOBODY = string.rep('\0', 8)
  local HEARD = 5000000 -- demand that is told for so long, and no grant comes, is not heard
  local FIELDS = '>I7I7I4I7I4I7c8I7I7I4I4I4I4I4I4I7c8I7I7I7I7I4I1I7I7I4I7I7'

  local function at_least(a, least)
    return a > least and a or least
  end

  -- a * b / c and what is left over, exactly; each at most 10^9.
  local function scale(a, b, c)
    local low = b % 32768
    local n = a * (b - low) / 32768
    local rest = n % c
    local high = (n - rest) / c
    n = rest * 32768 + a * low
    rest = n % c
    return high * 32768 + (n - rest) / c, rest
  end

  local function scale_down(parts, from, to)
    return (scale(parts, to, from))
  end

  local function scale_up(parts, from, to)
    local n, rest = scale(parts, to, from)
    return rest > 0 and n + 1 or n
  end

  ---- The plan: pieces {from, parts}, ascending

  local function plan_then(s, from, parts)
    if s.pieces[#s.pieces][2] ~= parts then
      s.pieces[#s.pieces + 1] = {from, parts}
    end
  end

  local function plan_set(s, from, parts)
    local pieces = s.pieces
    while #pieces > 1 and pieces[#pieces][1] >= from do
      pieces[#pieces] = nil
    end
    while #pieces > PIECES_MAX - PIECES_AHEAD do -- the two oldest become one
      local parts_then = table.remove(pieces, 2)[2]
      pieces[1][2] = parts_then < pieces[1][2] and parts_then or pieces[1][2]
    end
    plan_then(s, at_least(from, pieces[#pieces][1]), parts)
  end

  local function plan_at(s, time)
    local i = #s.pieces
    while i > 1 and s.pieces[i][1] > time do
      i = i - 1
    end
    return s.pieces[i][2], i
  end

  -- The share at an instant, as it follows from floor, promise and grant.
  local function share_at(s, time)
    local own = time < s.lent_until and s.floor - s.lent or s.floor
    return time < s.until_us and s.granted > own and s.granted or own
  end

  local function plan(s)
    local from, first, second = s.seen, s.until_us, s.lent_until
    if second < first then
      first, second = second, first
    end
    plan_set(s, from, share_at(s, from))
    if first > from then
      plan_then(s, first, share_at(s, first))
    end
    if second > from and second > first then
      plan_then(s, second, share_at(s, second))
    end
    s.dirty, s.limits = true, nil
  end

  ---- What changes the share

  -- From now on less may be in force than leases hold: reports say what they said until these have ended.
  local function settle(s, time, until_us)
    if until_us <= time then
      return
    end
    if s.settles <= s.seen then
      s.told_seq, s.told_floors, s.told_live = s.seq, s.floors, s.seen < s.until_us and 1 or 0
    end
    s.settles = until_us
  end

  local function set_floor(s, floors, floor)
    if floors <= s.floors then
      return
    end
    if floor < s.floor then
      settle(s, s.seen, s.leases_until)
      s.floor = floor
      s.lent = s.lent < floor and s.lent or floor
    end
    s.floors, s.risen, s.risen_at = floors, floor, floor > s.floor and floors or 0
    if s.risen_at > 0 and s.confirmed >= floors then
      s.floor, s.risen_at = floor, 0
    end
    plan(s)
  end

  local function set_whole(s, whole, floors, floor)
    local was = s.whole
    settle(s, s.seen, s.leases_until)
    s.whole = whole
    s.granted = scale_down(s.granted, was, whole)
    s.floor = scale_down(s.floor, was, whole)
    s.risen = scale_down(s.risen, was, whole)
    if floors == s.floors then -- exact, however often the limit changed
      if s.risen_at == 0 then
        s.floor = floor
      else
        s.risen = at_least(floor, s.floor)
      end
    end
    s.lent = scale_up(s.lent, was, whole)
    s.lent = s.lent < s.floor and s.lent or s.floor
    s.window_used = scale_up(s.window_used, was, whole)
    for i = 1, #s.used do
      s.used[i][2] = scale_up(s.used[i][2], was, whole)
    end
    for i = 1, #s.pieces do
      s.pieces[i][2] = scale_down(s.pieces[i][2], was, whole)
    end
    plan(s)
  end

  local function jump(s, lend_us)
    local lends = s.seen < s.lent_until
    settle(s, now, now + LEASE_MAX)
    s.leases_until, s.seen, s.until_us, s.granted, s.read, s.epoch = now + LEASE_MAX, now, 0, 0, 0, NOBODY
    s.lent_until, s.lent = lends and now + lend_us or 0, lends and s.lent or 0
    local least = share_at(s, now)
    for i = 1, #s.pieces do
      least = s.pieces[i][2] < least and s.pieces[i][2] or least
    end
    s.pieces, s.clock = {{now, least}}, s.clock + 1
    s.agents = {}
    if #s.used > 0 then -- it stays for a whole window by the new clock, leases included
      s.used = {{now + LEASE_MAX + s.span, s.used[1][2]}}
    end
    plan(s)
  end

  local function confirm_floors(s, floors)
    if floors <= s.confirmed then
      return
    end
    s.confirmed = floors
    if s.risen_at > 0 and floors >= s.risen_at then
      s.floor, s.risen_at = s.risen, 0
    end
  end

  -- When the window of a calendar that an instant is in begins and ends, as far as the edges reach.
  local function window_of(l, time)
    for i = 4, 2, -1 do
      if time >= l[i] and l[i + 1] > l[i] then
        return l[i], time < l[i + 1] and l[i + 1] or 0
      end
    end
    return 0, 0
  end

  local function grant_end(s, g, l)
    if g.clock ~= s.clock or g.t0 > s.seen then
      return 0
    end
    local stop = s.terms.loose and forever or g.t0 + g.duration
    if l.algorithm == 4 then
      local _, window_end = window_of(l, g.t0)
      stop = stop < window_end and stop or window_end
    end
    return stop > s.seen and stop or 0
  end

  -- False: it is one of before.
  local function read(s, g, l)
    if g.seq <= s.seq then
      return false
    end
    local until_us, parts = grant_end(s, g, l), scale_down(g.parts, g.whole, s.whole)
    if until_us == 0 or parts < s.granted or until_us < s.until_us then
      settle(s, s.seen, s.leases_until)
    end
    s.seq, s.granted, s.until_us = g.seq, until_us > 0 and parts or 0, until_us
    s.epoch, s.c0, s.read = g.epoch, g.c0, s.seen
    confirm_floors(s, g.floors)
    plan(s)
    return true
  end

  local function lend(s, parts, used)
    local lend_us = s.terms.lend_us
    if parts > s.floor or used > s.floor - parts or (s.seen < s.lent_until and parts < s.lent) then
      return
    end
    if s.epoch == NOBODY or s.seen >= s.read + (lend_us - lend_us % 2) / 2 or s.leases_until > s.seen then
      return
    end
    s.lent, s.lent_until = parts, at_least(s.lent_until, s.read + lend_us)
    s.lent_epoch, s.lent_c0 = s.epoch, s.c0
    plan(s)
  end

  ---- In Redis

  local function read_list(text, form, from)
    local items, n = {}
    n, from = unpack_fields('B', text, from)
    for i = 1, n do
      local a, b, c, after = unpack_fields(form, text, from)
      items[i] = after and {a, b, c} or {a, b}
      from = after or c
    end
    return items, from
  end

  local function load_share(text)
    if not text or #text < 4 + struct.size(FIELDS) or string.byte(text) ~= 2 then
      return nil
    end
    local s, from = {}
    s.clock, s.seen, s.whole, s.seq, s.granted, s.until_us, s.epoch, s.c0, s.read, s.floor, s.floors, s.risen, s.risen_at,
      s.confirmed, s.lent, s.lent_until, s.lent_epoch, s.lent_c0, s.leases_until, s.settles, s.told_seq, s.told_floors,
      s.told_live, s.window, s.window_stop, s.window_used, s.span, s.wants, from = unpack_fields(FIELDS, text, 2)
    s.pieces, from = read_list(text, '>I7I4', from)
    s.used, from = read_list(text, '>I7I4', from)
    s.agents = read_list(text, '>c8I7I4', from)
    return s
  end

  -- It remembers nothing: under a number of the clock that is greater than any before; its floor waits for a grant that
  -- confirms it, unless there never was another.
  local function new_share(terms)
    local clock = earliest > now and earliest < forever and earliest or now
    local floor = terms.floors == 1 and terms.floor or 0
    return {
      clock = clock, seen = now, whole = terms.whole, seq = 0, granted = 0, until_us = 0, epoch = NOBODY, c0 = 0, read = 0,
      floor = floor, floors = 0, risen = 0, risen_at = 0, confirmed = 0, lent = 0, lent_until = 0, lent_epoch = NOBODY,
      lent_c0 = 0, leases_until = 0, settles = 0, told_seq = 0, told_floors = 0, told_live = 0, window = 0, window_stop = 0,
      window_used = 0, span = 0, wants = 0, pieces = {{now, floor}}, used = {}, agents = {}, dirty = true,
    }
  end

  local function save_share(s)
    local text = {string.char(2), pack_fields(FIELDS, s.clock, s.seen, s.whole, s.seq, s.granted, s.until_us, s.epoch, s.c0,
      s.read, s.floor, s.floors, s.risen, s.risen_at, s.confirmed, s.lent, s.lent_until, s.lent_epoch, s.lent_c0,
      s.leases_until, s.settles, s.told_seq, s.told_floors, s.told_live, s.window, s.window_stop, s.window_used, s.span, s.wants)}
    local function add(form, items)
      text[#text + 1] = string.char(#items)
      for i = 1, #items do
        text[#text + 1] = pack_fields(form, unpack(items[i]))
      end
    end
    add('>I7I4', s.pieces)
    add('>I7I4', s.used)
    add('>c8I7I4', s.agents)
    local stop = at_least(at_least(s.lent_until, s.settles), at_least(s.leases_until, s.window_stop))
    if s.until_us < forever then
      stop = at_least(stop, s.until_us)
    end
    if #s.used > 0 then
      stop = at_least(stop, s.used[#s.used][1])
    end
    call('SET', s.key, table.concat(text), 'PXAT', expiry_text(at_least(stop, now) + (s.floors > 1 and KEPT_FLOORS or KEPT)))
    s.dirty = false
  end

  -- The shares of this call's quotas, as the configuration and the clock are now.
  function functions.begin()
    local n, first, last
    n, first, last, at = unpack_fields('<Hdd', program, at)
    for i = 1, n do
      local terms, ref, loose = {}
      ref, loose, terms.whole, terms.floor, terms.floors, terms.lend_us, terms.grant_us, at =
        unpack_fields('<I4BI4I4I4dd', program, at)
      terms.loose = loose == 1
      local s = by_ref[ref]
      if not s then
        s = load_share(strings[ref] or nil)
        if s and (now < first or now > last or now < s.seen - STEP_BACK) then
          jump(s, terms.lend_us)
        end
        s = s or new_share(terms)
        s.key = keys[ref]
        by_ref[ref] = s
      end
      s.terms, s.seen = terms, at_least(now, s.seen)
      if s.whole ~= terms.whole then
        set_whole(s, terms.whole, terms.floors, terms.floor)
      end
      set_floor(s, terms.floors, terms.floor)
      list[i] = s
    end
  end

  function functions.of(number)
    return list[number]
  end

  -- A limit's part under the share of now; of a bucket, the whole and the plan to go by. `whole`: in units.
  function functions.limit(s, l)
    s.limits = s.limits or {}
    local part = s.limits[l]
    if not part then
      part = {unpack(l)}
      part.algorithm, part.quota, part.whole = l.algorithm, s, l[1]
      if l.algorithm == 6 then
        part.whole = l[1] / 1000000
      else
        part[1] = scale_down(l[1], s.whole, (plan_at(s, s.seen)))
      end
      s.limits[l] = part
    end
    return part
  end

  -- Whether some agent of the region says that it is asked for it.
  function functions.is_told(s)
    for i = 1, #s.agents do
      if s.agents[i][2] > s.seen and s.agents[i][3] > 0 then
        return true
      end
    end
    return false
  end

  -- Of what fits into the whole: µs until it can be there, where by the share of now it is in `us`, -1: never.
  function functions.wait(s, us)
    local grant_us = s.terms.grant_us
    local grows = s.seen >= s.until_us and (s.seen < s.wants + HEARD or not functions.is_told(s))
    return (us < 0 or (grows and us > grant_us)) and grant_us or us
  end

  -- The latest end of a lease that is given now.
  function functions.lease_end(s)
    local stop = s.seen + LEASE_MAX
    return now < s.until_us and s.until_us < stop and s.until_us or stop
  end

  function functions.leased(s, stop)
    if stop > s.leases_until then
      s.leases_until, s.dirty = stop, true
    end
  end

  function functions.save()
    for _, s in pairs(by_ref) do
      if s.dirty then
        save_share(s)
      end
    end
  end

  ---- What keys used

  -- Windows: until a whole one after the last of it; the oldest of too many are taken for younger.
  -- Taken for a sixteenth of the window younger than it is, so that there are few.
  local function note_used(s, span, parts, until_us)
    local kept, step = {}, round_up(span, 16)
    until_us = round_up(until_us, step) * step
    s.span = at_least(span, s.span)
    for i = 1, #s.used do
      local was = s.used[i]
      if was[1] >= until_us and was[2] >= parts then
        return
      end
      if was[1] > now and (was[1] > until_us or was[2] > parts) then
        kept[#kept + 1] = was
      end
    end
    kept[#kept + 1] = {until_us, parts}
    table.sort(kept, function(a, b) return a[1] < b[1] end)
    if #kept > USED_MAX then
      kept[1][1] = table.remove(kept, 2)[1]
    end
    s.used, s.dirty = kept, true
  end

  local function see_window(s, start, stop)
    if start > s.window then
      s.window, s.window_stop, s.window_used, s.dirty = start, stop, 0, true
    end
  end

  -- Parts that the most used key did, and in which window of a calendar.
  local function used_now(s, l)
    if l.algorithm == 4 then
      see_window(s, window_of(l, s.seen))
      return s.window_used, s.window
    end
    for i = 1, #s.used do
      if s.used[i][1] > s.seen then
        return s.used[i][2], 0
      end
    end
    return 0, 0
  end

  local function in_parts(l, used)
    return l.whole > 0 and scale_up(used < l.whole and used or l.whole, l.whole, l.quota.whole) or 0
  end

  function functions.note_used(l, used, newest)
    if used > 0 then
      note_used(l.quota, l[2], in_parts(l, used), newest + l[2])
    end
  end

  function functions.note_taken(l, used, start, stop)
    local s = l.quota
    see_window(s, start, stop)
    local parts = in_parts(l, used)
    if start == s.window and parts > s.window_used then
      s.window_used, s.dirty = parts, true
    end
  end

  -- What a sliding window of a quota has beside its entries.
  function functions.mark(l)
    return format('k%d:0', l.quota.clock)
  end

  function functions.redate(key, l)
    local mark = functions.mark(l)
    if call('ZSCORE', key, mark) then
      return
    end
    local total = -tonumber(call('ZSCORE', key, 'n') or 0)
    if total > 0 then
      local stop = now + LEASE_MAX
      call('UNLINK', key)
      call('ZADD', key, format('%d', -total), 'n', 0, mark, format('%d', stop), format('%d:%d', stop, total))
      call('PEXPIREAT', key, expiry_text(stop + l[2]))
    end
  end

  ---- Operations

  -- What agents are asked for, this one included, and whether it has been among them for the longest: of several agents that one is
  -- enough to tell the others of the region.
  local function demand_of(s, op)
    local kept, sum, own = {}, op.demand, {op.agent, s.seen + op.keep, op.demand}
    for i = 1, #s.agents do
      local a = s.agents[i]
      if a[1] == op.agent then
        kept[#kept + 1], own = own, nil
      elseif a[2] > s.seen and #kept < AGENTS_MAX - 1 then
        kept[#kept + 1] = a
        sum = sum + a[3]
      end
    end
    kept[#kept + 1] = own
    s.agents = kept
    return sum, kept[1][1] == op.agent
  end

  local function told(s, l, demand, is_reporter)
    local used, window = used_now(s, l)
    local settled, lends, live = s.settles <= s.seen, s.seen < s.lent_until, s.seen < s.until_us
    demand = l.algorithm == 4 and demand + used or demand
    return pack_fields('<dddBI4I4I4dI4I4c8dI4I4ddB', s.clock, s.seen, settled and s.seq or s.told_seq,
      settled and (live and 1 or 0) or s.told_live, s.whole, demand < DEMAND_MAX and demand or DEMAND_MAX, used, window,
      settled and s.floors or s.told_floors, lends and s.lent or 0, lends and s.lent_epoch or NOBODY, lends and s.lent_c0 or 0,
      plan_at(s, s.seen), s.floor, live and s.until_us - s.seen or 0, lends and s.lent_until - s.seen or 0,
      is_reporter and 1 or 0)
  end

  function functions.read(op)
    local c = op.checks[1]
    local is_new = read(c.quota, op.grant, c.limit)
    c.quota.dirty = true
    return is_new, told(c.quota, c.limit, 0, false)
  end

  function functions.report(op)
    local s, l = op.checks[1].quota, op.checks[1].limit
    if s.seen < s.until_us or not functions.is_told(s) then
      s.wants = s.seen
    end
    local demand, is_reporter = demand_of(s, op)
    local used = used_now(s, l)
    if demand == 0 and s.floor > 0 and s.terms.lend_us > 0 and l.algorithm ~= 4 then
      lend(s, s.floor, used)
    end
    s.dirty = true
    return told(s, l, demand, is_reporter)
  end

  return functions
end
