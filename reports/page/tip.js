// The small box beside the pointer.
import { byId, el, replace } from './dom.js';

const box = byId('tip');

/** showTip shows lines beside a point of the window; the first is the title. */
export function showTip(x, y, lines) {
  replace(box, lines.map((line, i) => el(i ? 'div' : 'strong', {}, line)));
  box.hidden = false;
  const { width, height } = box.getBoundingClientRect();
  const left = x + 16 + width > innerWidth ? x - 14 - width : x + 14;
  const top = y + 18 + height > innerHeight ? y - 12 - height : y + 16;
  box.style.left = Math.max(left, 4) + 'px';
  box.style.top = Math.max(top, 4) + 'px';
}

export function hideTip() {
  box.hidden = true;
}
