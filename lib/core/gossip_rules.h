/*
 * The rules of gossip by name, where the code obeys them. The simulator compiles these files once more with a GOSSIP_RULE of
 * its own, to see that it finds out when one is broken; everywhere else a rule always holds.
 */
#pragma once

#ifndef GOSSIP_RULE
#define GOSSIP_RULE(name) true
#endif
