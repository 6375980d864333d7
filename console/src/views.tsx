/** The views: their rows and changes. */
import type { JSX } from 'preact';

export function Views(): JSX.Element {
  return (
    <main id="main" class="page views-page">
      <h1>Views</h1>
    </main>
  );
}
