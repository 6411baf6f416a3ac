-- http-request lua.kova_check POLICY: asks Kova whether the key in txn.kova_key may pass, and leaves in
--   txn.kova_status       200 or 429 (0: no answer)
--   txn.kova_retry_after  seconds, when refused
--   txn.kova_ratelimit    the RateLimit field
-- Load it with lua-load; needs HAProxy 2.5 or newer (its own HTTP client for Lua).
local AGENT = "http://127.0.0.1:7412"
local TIMEOUT_MS = 500

local function first(response, name)
	local values = response.headers and response.headers[name]
	return values and values[0] or ""
end

core.register_action("kova_check", { "http-req" }, function(txn, policy)
	local response = core.httpclient():get({
		url = AGENT .. "/v1/check",
		headers = {
			["x-kova-policy"] = { policy },
			["x-kova-key"] = { txn:get_var("txn.kova_key") },
			-- With tokens: ["authorization"] = { "Bearer TOKEN" },
		},
		timeout = TIMEOUT_MS,
	})
	txn:set_var("txn.kova_status", response.status or 0)
	txn:set_var("txn.kova_retry_after", first(response, "retry-after"))
	txn:set_var("txn.kova_ratelimit", first(response, "ratelimit"))
end, 1)
