// What a page says of its link to the program that serves it.

import { $, say } from "./parts.js";
import { when } from "./format.js";
import { token } from "./feed.js";

const TEXTS = { live: "Live", quiet: "No data for 5 s", lost: "Reconnecting", locked: "Token needed" };

/*
 * What follow() tells its states to, for a page of the program that is called `name`. `seen()` is when it was heard last, 0: never;
 * `locked(why)` is called each time that it asks for a token; why: what it said of the one it was shown, "": none was.
 */
export function linkTo(name, seen, locked) {
  let link = "wait";
  return (state, detail) => {
    const changed = state !== link;
    link = state;
    $("link").dataset.state = state === "live" ? "good" : state === "locked" ? "warn" : "bad";
    say($("link"), TEXTS[state]);
    document.body.classList.toggle("stale", state !== "live");
    if (state === "live" || (!changed && state !== "locked")) return; // each token that is refused is asked for again
    $("status").dataset.state = state === "locked" ? "warn" : "bad";
    if (state === "locked") {
      say($("status-title"), "A token is needed");
      say($("status-why"), `This ${name} answers who brings a token of its tokens file.`);
      locked(token.get() === "" ? "" : detail);
    } else {
      say($("status-title"), state === "quiet" ? "No data for 5 s, reconnecting" : `The ${name} can't be reached, reconnecting`);
      say($("status-why"), seen() > 0 ? `What is shown is from ${when(seen())}.` : detail || "");
    }
    $("status-why").hidden = false;
  };
}
