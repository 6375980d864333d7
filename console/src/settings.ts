/** What the reader has chosen for this browser: theme, zone, single-letter keys, the fields beside the editor. Works without storage; then it lasts until the reload. */
import { effect, signal } from '@preact/signals';
import { isZone } from './fragment.ts';

export type Theme = 'system' | 'dark' | 'light';

const NAME = 'swiftwater-console';
/** True: the console offers nothing that changes anything. */
export const readOnly = document.documentElement.dataset.mode === 'read_only';
export const browserZone = new Intl.DateTimeFormat().resolvedOptions().timeZone;

function load(): { [name: string]: unknown } {
  try {
    const value: unknown = JSON.parse(localStorage.getItem(NAME) ?? '{}');
    return typeof value === 'object' && value !== null ? { ...value } : {};
  } catch {
    return {};
  }
}

const loaded = load();

export const theme = signal<Theme>(loaded.theme === 'dark' || loaded.theme === 'light' ? loaded.theme : 'system');
/** Null: the browser's. */
export const chosenZone = signal<string | null>(typeof loaded.zone === 'string' && isZone(loaded.zone) ? loaded.zone : null);
export const letterKeys = signal(loaded.letterKeys !== false);
/** Whether the reader wants the fields beside the editor. Null: on a wide screen only, as on a narrow one they are below it. */
export const chosenFields = signal<boolean | null>(typeof loaded.fields === 'boolean' ? loaded.fields : null);
const wide = matchMedia('(min-width: 901px)').matches;
export const fieldsOpen = (): boolean => chosenFields.value ?? wide;

/** The zone of the page that is shown, if it has one of its own: a dashboard. */
export const pageZone = signal<string | null>(null);

export const zone = (): string => pageZone.value ?? chosenZone.value ?? browserZone;

const systemDark = matchMedia('(prefers-color-scheme: dark)');
const darkSystem = signal(systemDark.matches);
systemDark.addEventListener('change', () => {
  darkSystem.value = systemDark.matches;
});

export const isDark = (): boolean => (theme.value === 'system' ? darkSystem.value : theme.value === 'dark');

export function applySettings(): void {
  effect(() => {
    document.documentElement.dataset.theme = isDark() ? 'dark' : 'light';
  });
  effect(() => {
    const text = JSON.stringify({ theme: theme.value, zone: chosenZone.value, letterKeys: letterKeys.value, fields: chosenFields.value });
    try {
      localStorage.setItem(NAME, text);
    } catch {
      // The choice then ends with the page.
    }
  });
}
