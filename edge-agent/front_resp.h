/* The RESP front: what Redis clients speak, versions 2 and 3. */
#pragma once

#include "io/conn.h"

extern const struct front_ops front_resp;
