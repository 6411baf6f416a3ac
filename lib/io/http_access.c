#include "io/http_access.h"

static const struct http_refusal missing = {401, "WWW-Authenticate: Bearer\r\n",
					    "the field `Authorization: Bearer TOKEN` is needed"},
				 wrong = {401,
					  "WWW-Authenticate: Bearer error=\"invalid_token\"\r\n",
					  "this token is not known here"},
				 lacks_check[] = {{403, "", "this token lacks the scope `check`"},
						  {403, "",
						   "this certificate lacks the scope `check`"}},
				 lacks_admin[] = {
					 {403, "", "this token lacks the scope `admin`"},
					 {403, "", "this certificate lacks the scope `admin`"}};

static bool bearer(const struct http_request *r, struct slice *ret_token)
{
	struct slice value, scheme = SLICE("Bearer ");

	if (http_request_field(r, "Authorization", &value) != 1 || value.len <= scheme.len ||
	    !http_same_text((struct slice){value.ptr, scheme.len}, scheme))
		return false;
	value = slice_after(value, scheme.len);
	while (value.len != 0 && value.ptr[0] == ' ')
		value = slice_after(value, 1);
	*ret_token = value;
	return true;
}

bool http_access_allows(const struct auth *auth, enum http_access access,
			const struct http_request *r, const struct auth_token *certificate,
			const struct auth_token **ret_token, struct http_refusal *ret_refusal)
{
	const struct auth_token *token = certificate;
	const struct http_refusal *why = NULL;
	struct slice shown;

	if (access == ACCESS_OPEN || !auth_required(auth))
		return true;
	if (bearer(r, &shown)) {
		token = auth_find(auth, shown);
		why = token == NULL ? &wrong : NULL;
	} else if (token == NULL || token->scopes == 0) {
		why = &missing;
	}
	if (why == NULL && access == ACCESS_CHECK && (token->scopes & AUTH_CHECK) == 0)
		why = &lacks_check[token->is_certificate];
	else if (why == NULL && access == ACCESS_ADMIN && (token->scopes & AUTH_ADMIN) == 0)
		why = &lacks_admin[token->is_certificate];
	if (why != NULL)
		*ret_refusal = *why;
	else
		*ret_token = token;
	return why == NULL;
}
