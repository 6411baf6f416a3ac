/* The RESP front (docs of the commands: the contract's section on RESP): Redis clients, versions 2 and 3. */
#pragma once

#include "conn.h"

extern const struct front_ops front_resp;
