-- pool_session: a session keeps its endpoint, and gets a new id where it has another, or its own came back.
--
-- A session's key, k:p{POOL}s and its name: how often it has moved, after which ticket it was bound, its endpoint. It expires
-- `ttl` after it was used last.
local sessions = {}
local SESSION = '<I2dBc0'

local function session_of(name)
  local s = sessions[name]
  if s == nil then
    local text = call('GET', pool .. 's' .. name)
    s = {name = name, moves = 0, bound = 0, id = ''}
    if text then
      s.moves, s.bound, s.id = unpack_fields(SESSION, text)
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
    call('SET', key, pack_fields('<I2dB', s.moves, s.bound, #s.id) .. s.id, 'PX', format('%d', rule.ttl / 1000))
  end
end
