/** Which page is shown, as the address's fragment has it. */
import { signal } from '@preact/signals';
import { type Page, type State, readFragment, writeFragment } from './fragment.ts';

export const page = signal<Page>(readFragment(location.hash).page);

/** Shows `to` and leaves the way back in the browser's history. */
export function go(to: Page): void {
  const fragment = writeFragment({ page: to });
  if (location.hash !== fragment) window.history.pushState(null, '', fragment);
  page.value = to;
  window.scrollTo(0, 0);
}

/** Calls `opened` with the state of each address that the reader opens from now on. */
export function onAddress(opened: (state: State) => void): void {
  const read = () => {
    const state = readFragment(location.hash);
    page.value = state.page;
    opened(state);
  };
  window.addEventListener('hashchange', read);
  window.addEventListener('popstate', read);
}
