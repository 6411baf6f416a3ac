-- pool_limiter: the decide script, as it is, as a function of the pool's: the build puts its pieces between pool_limiter_begin and
-- pool_limiter_end. So an endpoint and what it may be used by are given in one step, and there is one way to take permits.
--
-- It gets the keys and the program that the script would, and returns its reply.
local limiter = function(KEYS, ARGV)
