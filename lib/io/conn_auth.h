/* Who is at a connection, by the certificate that it has shown. */
#pragma once

#include "io/auth.h"
#include "io/conn.h"

/* What its certificate stands for, of `auth` (auth_find_certificate()); NULL: it has shown none, or none that is listed. */
const struct auth_token *conn_auth_certificate(const struct conn *c, const struct auth *auth);
