-- pool_report: what an outcome says of an endpoint, an account, a target.
--
-- Why atomic: it is judged and counted once, by what all others have reported before.
local report = (function()
  local OK, REFUSED, AUTH, TUNNEL, TIMEOUT, TARGET_ERROR, BLOCKED, CAPTCHA, EMPTY, CANCELLED = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9

  local function free_trials(e, t, seq)
    local freed = health.free(e.health, seq)
    local s = t.cools[e.index] and seen_of(t, e.index)
    if s and health.free(s.health, seq) then
      freed = true
      seen_touch(t, e.index)
    end
    if freed then
      touch(e)
    end
  end

  -- A success (bit 0) or something neutral, as far as the endpoint itself goes.
  local function endpoint_answers(e, seq, bit)
    local what = health.take(e.health, seq, bit)
    if what == IGNORED then
      return false
    end
    if bit == 0 then
      count_return(e, true)
    end
    if what == PASSED then
      endpoint_back(e)
    end
    touch(e)
    return true
  end

  local function endpoint_fails(e, seq, hint, why)
    local h = e.health
    local what = health.take(h, seq, 1)
    if what == IGNORED then
      if seq <= h.began and health.late(h, hint) then
        moves = moves + 1
        touch(e)
      end
      return false
    end
    count_return(e, false)
    if what == FAILED then
      endpoint_cool(e, hint, why)
    end
    touch(e)
    return true
  end

  local function key_unknown(e)
    e.auths = e.auths + 1
    if e.auths >= 3 and e.disabled == 0 then
      e.disabled, moves = 1, moves + 1
      tiers_here = nil
      tell(DISABLED, e.index, 0, AUTH, '')
    end
    touch(e)
  end

  -- The endpoint was recognised, or the target turns everybody away.
  local function judged(e, t, r, op, hint)
    local sign = op.outcome ~= BLOCKED or (op.status > 0 and op.status ~= 429)
    target.meets(t, e, true)
    target.sign(t, r.tier, sign)
    if at_fault(t) then
      free_trials(e, t, op.seq)
      if not (sign and target.escalate(t, r.tier)) then
        target.hold(t, hint > 0 and hint or rule.hold)
      end
      return true
    end
    if t.name ~= '' then
      endpoint_answers(e, op.seq)
    end
    return target.blames(t, e, op.seq, hint, op.outcome)
  end

  local function answers(e, t, seq, bit)
    target.meets(t, e, false)
    target.answers(t, e, seq, bit)
    return endpoint_answers(e, seq, bit)
  end

  -- What of a report is the provider's word on the account of a key. True: nothing else of it counts.
  local function account_hears(e, op, hint)
    local a = account.of(e.index)
    for i = 1, #op.quota do
      local q = op.quota[i]
      account.learn(a, q.name, q.limit, q.left, q.absolute == 1 and q.reset or now + q.reset)
    end
    account.hold(a, hint)
    if e.auths > 0 and op.outcome ~= AUTH and op.outcome ~= CANCELLED and op.outcome ~= REFUSED and op.outcome ~= TUNNEL and
      op.outcome ~= TIMEOUT then
      e.auths = 0
      touch(e)
    end
    return op.outcome == BLOCKED and hint > 0
  end

  local function judge(e, t, r, op)
    local hint, outcome = op.hint > 0 and op.hint or 0, op.outcome
    if rule.kind == 1 then
      if account_hears(e, op, hint) then
        free_trials(e, t, op.seq)
        return true
      end
      hint = 0
      if outcome == REFUSED or outcome == TUNNEL or outcome == TIMEOUT then
        free_trials(e, t, op.seq)
        return true
      end
    end
    if outcome == OK then
      target.sign(t, r.tier, false)
      return answers(e, t, op.seq, 0)
    elseif outcome == TARGET_ERROR then
      target.sign(t, r.tier, false)
      return answers(e, t, op.seq)
    elseif outcome == CANCELLED then
      free_trials(e, t, op.seq)
      return true
    elseif outcome == BLOCKED or outcome == CAPTCHA or outcome == EMPTY then
      return judged(e, t, r, op, hint)
    end
    if rule.kind == 1 and outcome == AUTH then
      key_unknown(e)
    end
    local s = t.cools[e.index] and seen_of(t, e.index)
    if s and health.free(s.health, op.seq) then
      seen_touch(t, e.index)
    end
    return endpoint_fails(e, op.seq, hint, outcome)
  end

  -- 0: no such ticket; 1: it counted; 2: it did not.
  return function(op)
    local r = op.key and record.of(op.key)
    if not op.key or not is_known(op.ticket, r) then
      return 0
    elseif not r then
      return 2
    end
    record.drop(r)
    local i = r.index
    if not i then
      return 2
    end
    return judge(endpoint_of(i), target.of(r.target), r, op) and 1 or 2
  end
end)()
