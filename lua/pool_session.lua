-- pool_session: a session keeps its endpoint, and gets a new id where it has another, or its own came back.
--
-- A session's key, k:p{POOL}s and its name: how often it has moved, the ticket with which it was used last, its endpoint, and where
-- that was in the definition. It expires `ttl` after it was used last. An endpoint that has cooled since that ticket is left; and what
-- is undone ends only a binding that nobody has been told of since.
local sessions = {}
local SESSION = '<I2dHBc0'

local function session_of(name)
  local s = sessions[name]
  if s == nil then
    local text = call('GET', pool .. 's' .. name)
    s = {name = name, moves = 0, bound = 0, at = 0, id = ''}
    if text then
      s.moves, s.bound, s.at, s.id = unpack_fields(SESSION, text)
    end
    sessions[name] = s
  end
  return s
end

local function session_save(s)
  local key = pool .. 's' .. s.name
  if s.id == '' then
    call('DEL', key)
  else
    call('SET', key, pack_fields(SESSION, s.moves, s.bound, s.at, #s.id, s.id), 'PX', format('%d', rule.ttl / 1000))
  end
end

-- Until then it is one session's.
local function exclude(i, stop)
  if stop > 0 or special[i] then
    local e = endpoint_of(i)
    e.excluded = stop
    touch(e)
  end
end

-- Binds the session to the endpoint of this index. Returns whether it had something else before.
local function session_use(s, i, kept)
  local was, id, moved = s.id, id_of(i), false
  if was ~= id or not kept then
    moved = was ~= ''
    s.moves = moved and s.moves % 65535 + 1 or s.moves
    local other = rule.exclusive == 1 and moved and was ~= id and index_of(was, s.at)
    if other then
      exclude(other, 0)
    end
    s.id = id
  end
  s.at = i
  s.bound = vars.seq
  exclude(i, rule.exclusive == 1 and now + rule.ttl or 0)
  session_save(s)
  return moved, was == ''
end
