// The report's script: the parts of the page that move. What stands still is in the page itself.
import { byId } from './dom.js';
import { load } from './data.js';
import { Stories } from './story.js';
import { Timeline } from './timeline.js';

const data = load();
const stories = data.locks ? null : new Stories(data);
const timeline = new Timeline(data, (n, go) => stories?.tell(n, go));

for (const b of document.querySelectorAll('[data-goto]')) {
  b.addEventListener('click', () => {
    timeline.violation(Number(b.dataset.goto));
    byId('timeline').scrollIntoView();
  });
}
for (const b of document.querySelectorAll('[data-story]')) {
  b.addEventListener('click', () => stories.tell(Number(b.dataset.story), true));
}
const copy = byId('copy');
if (copy) {
  copy.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(byId('command').textContent);
      copy.textContent = 'Copied';
    } catch {
      getSelection().selectAllChildren(byId('command')); // the browser forbids it: let the reader copy the selection
      copy.textContent = 'Selected';
    }
  });
}
