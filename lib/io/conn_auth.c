#include "io/conn_auth.h"

const struct auth_token *conn_auth_certificate(const struct conn *c, const struct auth *auth)
{
	struct buf names = {0};
	const struct auth_token *found = NULL;

	conn_certificate_names(c, &names);
	if (!buf_failed(&names))
		found = auth_find_certificate(auth, buf_slice(&names));
	buf_release(&names);
	return found;
}
