-- pool_permits: the permits that go with an endpoint: those that its account needs, and those that the caller asks for.
--
-- Why atomic: nobody has an endpoint that he may not use yet, and nobody's permits are spent on none.
--
-- An agent that can have them taken here sends the program of one TAKE with its NEXT (README.md). Of the keys that are the account's
-- own it sends what is before and behind the account, since who is next is only known here.
local permits = {GRANTED = 1, PASSED = 2, REFUSED = 3, MOST = 64}

-- What the limits of the endpoint of this index are kept by: its group, or else its id as people know it.
function permits.holder(i)
  local _, _, id_at, id_length, at, length = record_at(i)
  if length > 0 then
    return sub(definition, at, at + length - 1), true
  end
  return string.match(sub(definition, id_at, id_at + id_length - 1), '^[^@]*'), false
end

-- Takes all of them or none. GRANTED; PASSED: the endpoint's own are what lacks; REFUSED: it does not depend on the endpoint.
-- Second: what the limiter answered.
function permits.take(p, i)
  local holder, names = p.own > 0 and permits.holder(i), {}
  for k = 1, #p.before do
    names[k] = p.behind[k] and p.before[k] .. holder .. p.behind[k] or p.before[k]
  end
  local text, place = limiter(names, {p.program}), 18
  if byte(text, 17) >= 2 then -- the short reply: what was missing to full
    local debt = unpack_fields('<d', text, place)
    if debt >= 0 then
      return debt <= p.most and permits.GRANTED or p.own > 0 and permits.PASSED or permits.REFUSED, text
    end
    place = place + 8
  end
  local status, check = unpack_fields('<BH', text, place)
  status = status % 8
  if status == 1 or status == 2 then
    return permits.GRANTED, text
  end
  return status == 0 and check < p.own and permits.PASSED or permits.REFUSED, text
end

-- All that the same holder's permits are for are passed over.
function permits.pass(skip, i)
  local holder, is_group = permits.holder(i)
  skip[#skip + 1] = i
  for k = 1, is_group and n_endpoints or 0 do
    if k ~= i and permits.holder(k) == holder then
      skip[#skip + 1] = k
    end
  end
end
