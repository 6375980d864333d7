/** Which page is shown, as the address's fragment has it. */
import { batch, signal } from '@preact/signals';
import { type Page, type State, readFragment, writeFragment } from './fragment.ts';

const begin = readFragment(location.hash);
export const page = signal<Page>(begin.page);
/** The name of the object that the page shows; null: its list. */
export const object = signal<string | null>(begin.object ?? null);

/** The address of a page, or of an object on it. */
export function addressOf(to: Page, name: string | null = null): string {
  return writeFragment(name === null ? { page: to } : { page: to, object: name });
}

/** Shows `to` and leaves the way back in the browser's history. */
export function go(to: Page, name: string | null = null): void {
  const fragment = addressOf(to, name);
  if (location.hash !== fragment) window.history.pushState(null, '', fragment);
  show(to, name);
  window.scrollTo(0, 0);
}

/** Puts another address in the place of this one, and shows what it names. */
export function replaceAddress(fragment: string): State {
  const state = readFragment(fragment);
  window.history.replaceState(null, '', fragment);
  show(state.page, state.object ?? null);
  return state;
}

/** Calls `opened` with the state of each address that the reader opens from now on. */
export function onAddress(opened: (state: State) => void): void {
  const read = () => {
    const state = readFragment(location.hash);
    show(state.page, state.object ?? null);
    opened(state);
  };
  window.addEventListener('hashchange', read);
  window.addEventListener('popstate', read);
}

function show(to: Page, name: string | null): void {
  batch(() => {
    page.value = to;
    object.value = name;
  });
}
