//! stub
/// stub
pub struct Html<W>(W);
impl<W: std::io::Write> Html<W> {
    /// stub
    pub fn new(w: W) -> Self {
        Self(w)
    }
}
impl<W: std::io::Write> crate::Report for Html<W> {
    fn trace(&mut self, _: &crate::Findings) -> std::io::Result<()> {
        Ok(())
    }
    fn finish(&mut self, _: &[crate::Unread]) -> std::io::Result<()> {
        self.0.flush()
    }
}
