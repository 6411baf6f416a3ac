-- pool_account: what a provider says of a key's account: a hold, and quotas with their resets. Keys of one group share it.
--
-- Why atomic: a key that has nothing left is given to nobody, whichever agent was told.
local accounts, account = {}, {by = {}, all_read = false}

function account.name(i)
  local _, _, id_at, id_length, at, length = record_at(i)
  if length == 0 then
    at, length = id_at, id_length
  end
  return sub(definition, at, at + length - 1)
end

function account.new(name, text)
  local a, n, place = {name = name, held = 0}
  if text then
    a.held, n, place = unpack_fields('<dB', text)
    for i = 1, n do
      local q = {}
      q.name, q.limit, q.left, q.reset, place = unpack_fields('<Bc0ddd', text, place)
      a[i] = q
    end
  end
  accounts[name] = a
  return a
end

-- Of the endpoint of this index.
function account.of(i)
  local a = account.by[i]
  if not a then
    local name = account.name(i)
    a = accounts[name] or account.new(name, call('HGET', pool, 'a' .. name))
    account.by[i] = a
  end
  return a
end

-- All of them are going to be asked for.
function account.read_all()
  if account.all_read then
    return
  end
  account.all_read = true
  local names, ask, asked = {}, {}, {}
  for i = 1, n_endpoints do
    local name = account.name(i)
    if not accounts[name] and not asked[name] then
      asked[name] = true
      names[#names + 1], ask[#ask + 1] = name, 'a' .. name
    end
  end
  local got = read_fields(ask)
  for k = 1, #got do
    account.new(names[k], got[k])
  end
end

function account.text(a)
  local parts = {pack_fields('<dB', a.held, #a)}
  for i = 1, #a do
    local q = a[i]
    parts[i + 1] = pack_fields('<B', #q.name) .. q.name .. pack_fields('<ddd', q.limit, q.left, q.reset)
  end
  return table.concat(parts)
end

function account.hold(a, us)
  if us > 0 and now + us > a.held then
    a.held, a.dirty, changes, turns = now + us, true, changes + 1, {}
  end
end

-- A quantity: what was left when it was said, and when there is new. In one window what is left never grows.
function account.learn(a, name, limit, left, reset)
  local q
  for i = 1, #a do
    q = a[i].name == name and a[i] or q
  end
  if reset <= now or reset > now + 24 * HOUR then
    return
  end
  if not q then
    if #a == 8 then
      return
    end
    q = {name = name, limit = -1, left = -1, reset = 0}
    a[#a + 1] = q
  end
  local apart = reset - q.reset
  local same = apart <= 1000000 and apart >= -1000000
  if same and q.left >= 0 and (left < 0 or left > q.left) then
    left = q.left
  end
  q.limit, q.left, q.reset = limit >= 0 and limit or q.limit, left, same and q.reset or reset
  a.dirty, changes, turns = true, changes + 1, {}
end

-- Until when nobody gets a key of it; 0: now.
function account.wait(a)
  local stop = a.held
  for i = 1, #a do
    local q = a[i]
    if q.left == 0 and q.reset > stop then
      stop = q.reset
    end
  end
  return stop > now and stop - now or 0
end

-- One request more is on its way, or (-1) it was not made.
function account.use(a, n)
  for i = 1, #a do
    local q = a[i]
    if q.name == 'requests' and q.reset > now and (q.left > 0 or (n < 0 and q.left >= 0)) then
      q.left, a.dirty = q.left - n, true
      turns = (q.left == 0 or q.left == -n) and {} or turns
    end
  end
end
