// The dialog that asks for a token, of the program that is called `name`; `begin()` is called when there is another token, or none.

import { $, dialog, said, say } from "./parts.js";
import { token } from "./feed.js";

// Returns what opens it: ask(why), where `why` is what the program said of the last one.
export function startToken(name, begin) {
  const box = dialog("token-dialog", (fields) => {
    token.set(fields.token.value.trim());
    fields.token.value = "";
    begin();
  });
  const ask = (why) => {
    box.open();
    if (why) say($("token-why"), `The ${name} said: ${why}.`);
  };
  $("token-open").addEventListener("click", () => ask());
  $("token-forget").addEventListener("click", () => {
    token.forget();
    $("token-dialog").close();
    said("The token is forgotten.");
    begin();
  });
  return ask;
}
