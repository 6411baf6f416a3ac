/* "host:port" and "[v6]:port". */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/bytes.h"
#include "core/status.h"

struct host_port {
	struct slice host; /* of the text, without brackets; may be empty */
	bool bracketed;
	uint16_t port;
};

/*
 * Splits `text` at its last colon. What a host may be is the caller's to judge: one with colons and no brackets is
 * let pass, as a Cluster's nodes name each other so. KOVA_EPROTO: there is no colon, or no number of 1 to 5 digits behind
 * it. KOVA_ERANGE: the port is above 65535.
 */
KOVA_MUST_CHECK kova_status host_port_parse(struct slice text, struct host_port *ret_address);
