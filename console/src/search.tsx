/** Text search over stored streams. */
import type { JSX } from 'preact';

export function Search(): JSX.Element {
  return (
    <main id="main" class="page search-page">
      <h1>Search</h1>
    </main>
  );
}
