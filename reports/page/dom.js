// Building the page. Everything goes through textContent and attributes, never through HTML text: what the page shows
// comes from the evidence of a run, and evidence may say anything.

/** el makes an element: el('p', {class: 'dim'}, 'text', child). A listener is an attribute like onclick. */
export function el(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** svg does the same for an element of a drawing. */
export function svg(name, attributes, ...children) {
  return fill(document.createElementNS('http://www.w3.org/2000/svg', name), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === false || value === null || value === undefined) continue;
    if (typeof value === 'function') node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? '' : String(value));
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== false) node.append(child);
  }
  return node;
}

/** replace puts children in the place of whatever node held. */
export function replace(node, ...children) {
  node.replaceChildren(...children.flat().filter(Boolean));
}

export const byId = (id) => document.getElementById(id);

/** colour reads a colour of the style sheet, so that drawings follow the theme. */
export function colours() {
  const style = getComputedStyle(document.documentElement);
  const cache = {};
  return (name) => (cache[name] ??= style.getPropertyValue('--' + name).trim());
}

/** onTheme calls redraw whenever the colours may have changed. */
export function onTheme(redraw) {
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
  matchMedia('print').addEventListener('change', redraw);
}

/** onWidth calls redraw with the node's width, at once and whenever it changes, at most once a frame. */
export function onWidth(node, redraw) {
  let last = Math.round(node.clientWidth);
  if (last > 0) redraw(last);
  new ResizeObserver(() => {
    const width = Math.round(node.clientWidth);
    if (width === last || width === 0) return;
    last = width;
    requestAnimationFrame(() => redraw(width));
  }).observe(node);
}
