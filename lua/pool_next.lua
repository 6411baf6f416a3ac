-- pool_next: an endpoint is chosen, with the permits that go with it, counted and issued; or given back.
--
-- Why atomic: what is chosen is counted before anybody else chooses.
local next_endpoint, undo = (function()
  local function begin_trials(i, t, seq)
    local is_trial, e = false, special[i]
    if e and e.health.cooling then
      e.health.trial, e.health.trial_stop, is_trial = seq, now + rule.trial, true
      touch(e)
    end
    if t.cools[i] then
      local seen = seen_of(t, i)
      seen.health.trial, seen.health.trial_stop, is_trial = seq, now + rule.trial, true
      seen_touch(t, i)
    end
    return is_trial
  end

  -- Whose turn it is among those that are open: his index, his tier and tag after it, the tier's virtual time then (nil: as it was).
  local function choose(open, kept, tier)
    local i = open[1]
    if kept then
      return i, record_at(i), TAG.values[i]
    end
    local v, tag
    i, v, tag = choice(open, vars.tag[tier])
    return i, tier, tag, v
  end

  -- The same with the permits that go with it, taken. Nobody: no endpoint is chosen, and why; `tries` has the limiter's answers.
  local LIMITED = 6
  local function choose_permitted(op, t, s, open, kept, tier, odd, tries)
    local skip = {unpack(op.skip)}
    while open do
      local i, its_tier, tag, v = choose(open, kept, tier)
      local verdict, text = permits.take(op.permits, i)
      tries[#tries + 1] = pack_fields('<HH', i, #text) .. text
      if verdict == permits.GRANTED then
        return i, its_tier, tag, v, kept, odd
      elseif verdict ~= permits.PASSED or kept or #tries == permits.MOST then
        return nil, LIMITED, 0, 0
      end
      permits.pass(skip, i)
      op.skip = skip
      open, kept, tier, odd = find(op, t, s)
    end
    return nil, kept, tier, odd -- why, wait, firm
  end

  local n_fresh = 0
  local function issue(op, t, s, i, tier, tag, kept)
    vars.seq = vars.seq + 1
    local seq = vars.seq
    local key, id, session, moved, new = format('%d', seq), id_of(i), '', false, false
    if s then
      moved, new = session_use(s, i, kept)
      session = (new or moved) and s.name or ''
    end
    local ticket = format('%x', seq) .. lease_digits
    ticket = ticket .. '.' .. authenticator(ticket)
    local text = pack_fields(RECORD_OF_TICKET, new and SESSION_NEW or 0, tier, i, lease_end, tag - TAG.values[i], LAST.values[i], #id, id,
      #op.target, op.target, #session, session, ticket)
    TAG.values[i], LAST.values[i], TICKETS.values[i] = tag, seq, TICKETS.values[i] + 1
    fly(i, 1)
    if rule.select == 0 then
      stir(i)
    end
    vars.tickets, vars.dirty = vars.tickets + 1, true
    if tier > 1 then
      vars.above = vars.above + 1
    end
    if rule.kind == 1 then
      account.use(account.of(i), 1)
    end
    local trial = begin_trials(i, t, seq)
    records[key], n_fresh = text, n_fresh + 2
    fresh[n_fresh - 1], fresh[n_fresh] = key, text
    leases[n_fresh - 1], leases[n_fresh] = lease_score, key
    return pack_fields('<BBHBBHdBc0', 0, 1, i, tier, (moved and 1 or 0) + (trial and 2 or 0), s and s.moves or 0, seq, #ticket, ticket)
  end

  -- An answer, which begins with no tries, with those that there were.
  local function told(tries, text)
    return pack_fields('<B', #tries) .. table.concat(tries) .. sub(text, 2)
  end

  -- What was answered in this batch where there was none, while nothing has changed since.
  local memo, memo_at = {}, -1
  local function next_endpoint(op)
    local t = target.of(op.target)
    local s = op.session ~= '' and session_of(op.session) or nil
    local waits = op.waiter ~= NOBODY and not s
    local simple = not s and not waits and #op.skip == 0
    if simple and memo_at == changes and memo[op.tier .. op.target] then
      return memo[op.tier .. op.target]
    end
    local open, why, wait, firm = find(op, t, s)
    if waits then
      local tier = tier_from(op.tier > 0 and op.tier or tier_now(t))
      if open and op.arrival > 0 then
        line.leave(op.waiter, tier)
      elseif why == SLOTS or (why == COOLS and op.target == '') then
        line.join(op, tier)
      end
    end
    if not open then
      local text = pack_fields('<BBBdd', 0, 0, why, wait, firm < forever and firm or -1)
      if simple then
        memo, memo_at = memo_at == changes and memo or {}, changes
        memo[op.tier .. op.target] = text
      end
      return text
    end
    local kept, odd, tries, i, tier, tag, v = why, firm
    if op.permits then
      tries = {}
      i, tier, tag, v, kept, odd = choose_permitted(op, t, s, open, kept, wait, odd, tries)
    else
      i, tier, tag, v = choose(open, kept, wait)
    end
    if not i then
      return told(tries, pack_fields('<BBBdd', 0, 0, tier, tag, v < forever and v or -1))
    end
    if v then
      if odd and v > vars.tag[tier] then
        turns[tier] = nil -- it has passed some by that others can choose
      end
      vars.tag[tier] = v
    end
    local text = issue(op, t, s, i, tier, tag, kept)
    return tries and told(tries, text) or text
  end

  -- What a reservation took is given back, as if it had not been.
  local function undo(key, seq)
    local r = record.of(key)
    if not r or r.stop + HOUR <= now then
      return
    end
    record.drop(r)
    local i, _, tier, _, _, moved, last, _, _, session = r.index, record.unpack(r)
    if not i then
      return
    end
    local tickets = TICKETS.values[i]
    TAG.values[i], TAG.dirty = TAG.values[i] - moved, true
    TICKETS.values[i], TICKETS.dirty = tickets > 0 and tickets - 1 or 0, true
    if LAST.values[i] == seq then
      LAST.values[i], LAST.dirty = last, true
    end
    row_changed(i)
    stir(i)
    vars.tickets = vars.tickets > 0 and vars.tickets - 1 or 0
    vars.above = vars.above - (tier > 1 and vars.above > 0 and 1 or 0)
    vars.above = vars.above < vars.tickets and vars.above or vars.tickets -- it was given before these were counted
    vars.dirty, changes = true, changes + 1
    local e = special[i]
    if e and health.free(e.health, seq) then
      touch(e)
    end
    if r.target ~= '' then
      local t = target.of(r.target)
      local seen = t.cools[i] and seen_of(t, i)
      if seen and health.free(seen.health, seq) then
        seen_touch(t, i)
      end
    end
    if rule.kind == 1 then
      account.use(account.of(i), -1)
    end
    local s = session ~= '' and session_of(session)
    if s and s.bound == seq and s.id == r.id then
      if r.flags % 2 == SESSION_NEW then
        s.id, s.moves = '', 0
        exclude(i, 0)
      else -- nobody was told that it moved: it moves again
        s.bound = 0
      end
      session_save(s)
    end
  end

  return next_endpoint, undo
end)()
