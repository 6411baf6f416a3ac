-- probe: can the decide script do its work again, on a server that refused it?
--
-- Why a script: it needs what decide needs: EVALSHA, EVAL, and a write to a key of ours that takes memory.
--
-- KEYS[1]  a key that says nothing, gone at once
-- ARGV[1]  a text, by which the agent knows the reply again
-- returns  the text
redis.call('SET', KEYS[1], '', 'PX', 1)
return ARGV[1]
