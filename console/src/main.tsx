/** The page's begin: settings, worker, saved questions, the question that came with the address. */
import { render } from 'preact';
import { start } from './client.ts';
import type { State } from './fragment.ts';
import { readFragment } from './fragment.ts';
import { withLater } from './page_table.ts';
import { onAddress, replaceAddress } from './route.ts';
import { applySettings, chosenZone } from './settings.ts';
import { Shell } from './shell.tsx';
import { followShortLink } from './short_links.tsx';
import { chooseForm, look, openTab, openTabs } from './tabs.ts';

const html = document.documentElement;
const assets = document.querySelector<HTMLScriptElement>('script[data-base]')?.dataset.base ?? '.';

/** Shows the question of a link. It never runs by itself: the reader sees it first. */
function show(state: State, origin: 'link' | 'other site'): void {
  if (state.zone !== undefined) chosenZone.value = state.zone;
  if (state.link !== undefined) {
    void followShortLink(state.link, (fragment) => show(replaceAddress(fragment), origin));
    return;
  }
  if (state.saved !== undefined) {
    const name = state.saved;
    window.history.replaceState(null, '', '#/ask');
    void withLater((later) => later.open(name, origin));
    return;
  }
  if (state.page !== 'ask' || state.text === undefined) return;
  const tab = openTab(state.text, state.dialect, state.parameters);
  if (tab.asked.value === null) tab.origin.value = origin;
  chooseForm(tab, state.form ?? null);
  if (state.measure !== undefined) look(tab, { measure: state.measure });
  // The text lives in the tab from here on; a reload must not open it again.
  window.history.replaceState(null, '', '#/ask');
}

applySettings();
start(assets);
const root = document.getElementById('app');
if (root !== null) {
  const begin = readFragment(location.hash);
  render(<Shell build={html.dataset.build ?? ''} assets={assets} />, root);
  onAddress((state) => show(state, 'link'));
  void openTabs().then(() => show(begin, html.dataset.from === 'cross-site' ? 'other site' : 'link'));
}
