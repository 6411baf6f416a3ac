// Pieces of a page: nodes are made once and then only changed, so that a page that is open for long does not grow.

export const $ = (id) => document.getElementById(id);

// Changes the text only if it is another.
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function make(name, options = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(options)) {
    if (key === "class") node.className = value;
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

/*
 * Brings the children of `parent` in line with `items`, one each, known by `key(item)`: `build(item)` makes a node,
 * `update(node, item)` changes it. The order is that of the items.
 */
export function list(parent, items, key, build, update) {
  const nodes = parent.kovaNodes || (parent.kovaNodes = new Map());
  const left = new Set(nodes.keys());
  let at = parent.firstElementChild;
  for (const item of items) {
    const name = key(item);
    let node = nodes.get(name);
    if (!node) {
      node = build(item);
      nodes.set(name, node);
    }
    left.delete(name);
    update(node, item);
    if (node === at) at = at.nextElementSibling;
    else parent.insertBefore(node, at);
  }
  for (const name of left) {
    nodes.get(name).remove();
    nodes.delete(name);
  }
}

/*
 * Rows of a table's body. `cells(item)` gives an array: text, a sentence in {prose}, or a number's text in {num}, a state in {state, text}, two parts
 * of a whole in {mix: [a, b]}, code in {code}, buttons in {actions: [[label, name]…]}. A press calls `press(name, item)`.
 */
export function rows(table, items, key, cells, press) {
  const empty = $(`${table.id}-empty`);
  if (empty) empty.hidden = items.length > 0;
  table.classList.toggle("is-empty", items.length === 0);
  list(table.tBodies[0], items, key, () => make("tr"), (row, item) => {
    const heads = table.tHead.rows[0].cells;
    row.kovaItem = item;
    cells(item).forEach((cell, i) => {
      let node = row.cells[i];
      if (!node) {
        node = i === 0 ? make("th", { scope: "row" }) : make("td");
        row.append(node);
      }
      fill(node, cell, row, press);
      node.classList.toggle("lesser", heads[i].classList.contains("lesser"));
    });
  });
}

function fill(node, cell, row, press) {
  if (typeof cell === "string") say(node, cell);
  else if (cell.prose !== undefined) {
    node.className = "prose";
    say(node, cell.prose);
  } else if (cell.num !== undefined) {
    node.className = cell.loud ? "num loud" : cell.num === "0" || cell.num === "0%" ? "num nil" : "num";
    say(node, cell.num);
  } else if (cell.state !== undefined) {
    if (!node.firstChild) node.append(make("span", { class: "pill" }));
    node.firstChild.dataset.state = cell.state;
    say(node.firstChild, cell.text);
  } else if (cell.mix !== undefined) {
    node.className = "mix-cell";
    if (!node.firstChild) node.append(make("span", { class: "mix", "aria-hidden": "true" }, make("i"), make("i")));
    const [a, b] = cell.mix;
    const all = a + b;
    node.firstChild.firstChild.style.width = all > 0 ? `${(a / all) * 100}%` : "0";
    node.firstChild.lastChild.style.width = all > 0 ? `${(b / all) * 100}%` : "0";
  } else if (cell.part !== undefined) {
    node.className = "mix-cell";
    if (!node.firstChild) node.append(make("span", { class: "mix", "aria-hidden": "true" }, make("i", { class: cell.series })));
    node.firstChild.firstChild.style.width = `${cell.part * 100}%`;
  } else if (cell.code !== undefined) {
    node.className = "code";
    if (!node.firstChild) node.append(make("code"));
    say(node.firstChild, cell.code);
    node.firstChild.title = cell.code;
  } else if (cell.actions !== undefined) {
    node.className = "actions";
    list(node, cell.actions, (action) => action[1], ([, name]) =>
      make("button", { type: "button", class: "small", onclick: () => press(name, row.kovaItem) }), (button, [label, , about]) => {
      say(button, label);
      if (about) button.setAttribute("aria-label", about);
    });
  }
}

// Terms and what they are.
export function facts(parent, pairs) {
  list(parent, pairs, (pair) => pair[0], ([term]) => make("div", {}, make("dt", {}, term), make("dd")), (node, [, text, state]) => {
    say(node.lastChild, text);
    node.dataset.state = state || "";
  });
}

let toast = 0;

// Says what was done, for a while.
export function said(text) {
  const node = $("said");
  say(node, text);
  node.hidden = false;
  clearTimeout(toast);
  toast = setTimeout(() => {
    node.hidden = true;
  }, 5000);
}

/*
 * A dialog's form: `submit(fields)` does what it is for and throws what went wrong, which is then said in it. Escape and its
 * buttons close it.
 */
export function dialog(id, submit) {
  const box = $(id);
  const form = box.querySelector("form");
  const wrong = box.querySelector(".wrong");
  for (const button of box.querySelectorAll("[data-close]")) button.addEventListener("click", () => box.close());
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    wrong.hidden = true;
    try {
      await submit(form.elements);
      box.close();
    } catch (error) {
      say(wrong, error.message);
      wrong.hidden = false;
    }
  });
  return {
    form,
    open() {
      wrong.hidden = true;
      if (!box.open) box.showModal();
    },
  };
}
